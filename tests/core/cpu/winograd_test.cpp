// Our own Winograd by itself, at both widths of a block, against sums in double: every pass, maps that tiles do not divide, any padding,
// channels that fill no block; and the device that takes it where the table says so.
#include "core/cpu/winograd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/base/random.h"
#include "core/cpu/blocked_product.h"
#include "core/cpu/instruction_set.h"

namespace millrace::cpu {

namespace {

// Stated: the norm of the error over the norm of the result, at up to 128 channels of numbers between -0.5 and 0.5.
constexpr double kTolerance = 5e-6;

std::vector<float> numbers(size_t count, const char* stream) {
  const Philox draw(7, stream_id(stream));
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = draw.uniform(i) - 0.5f;
  return values;
}

// Where an element is, in canonical order and in blocks.
struct Map {
  int64_t samples, channels, height, width, lanes;

  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  size_t stored() const { return static_cast<size_t>(samples * blocks() * lanes * height * width); }
  size_t at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return static_cast<size_t>((((n * blocks() + c / lanes) * height + h) * width + w) * lanes + c % lanes);
  }
  // Padding zero.
  std::vector<float> drawn(const char* stream) const {
    std::vector<float> values(stored());
    const std::vector<float> all = numbers(static_cast<size_t>(samples * channels * height * width), stream);
    size_t next = 0;
    for (int64_t n = 0; n < samples; ++n)
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t h = 0; h < height; ++h)
          for (int64_t w = 0; w < width; ++w) values[at(n, c, h, w)] = all[next++];
    return values;
  }
};

Map x_of(const WinogradShape& s) { return {s.samples, s.inputs, s.height, s.width, s.lanes}; }
Map y_of(const WinogradShape& s) { return {s.samples, s.outputs, s.out_height, s.out_width, s.lanes}; }

// visit(x, y, tap with both channels) for all that are multiplied; weights lie as [channel of x][tap][channel of y].
template <typename Visit>
void for_each_product(const WinogradShape& s, Visit visit) {
  const Map x = x_of(s), y = y_of(s);
  for (int64_t n = 0; n < s.samples; ++n)
    for (int64_t i = 0; i < s.inputs; ++i)
      for (int64_t h = 0; h < s.out_height; ++h)
        for (int64_t w = 0; w < s.out_width; ++w)
          for (int64_t tap = 0; tap < 9; ++tap) {
            const int64_t row = h + tap / 3 - s.pad_h, column = w + tap % 3 - s.pad_w;
            if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
            for (int64_t o = 0; o < s.outputs; ++o)
              visit(x.at(n, i, row, column), y.at(n, o, h, w), static_cast<size_t>((i * 9 + tap) * s.outputs + o));
          }
}

double error_of(const std::vector<float>& mine, const std::vector<double>& exact) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    difference += std::pow(mine[i] - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  return std::sqrt(difference / norm);
}

// What lies about in scratch must not matter.
std::vector<float> scratch_of(size_t bytes) { return std::vector<float>(bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN()); }

std::vector<WinogradShape> shapes() {
  std::vector<WinogradShape> all;
  const auto add = [&](int64_t samples, int64_t inputs, int64_t outputs, int64_t height, int64_t width, int64_t pad_h, int64_t pad_w) {
    for (const int64_t lanes : {8, 16})
      all.push_back({.samples = samples,
                     .inputs = inputs,
                     .outputs = outputs,
                     .height = height,
                     .width = width,
                     .out_height = height + 2 * pad_h - 2,
                     .out_width = width + 2 * pad_w - 2,
                     .pad_h = pad_h,
                     .pad_w = pad_w,
                     .lanes = lanes});
  };
  add(3, 32, 64, 8, 8, 1, 1);
  add(1, 16, 16, 4, 4, 1, 1);
  add(2, 21, 27, 7, 9, 1, 1);  // no whole block, no whole tile
  add(2, 16, 40, 10, 6, 0, 0);
  add(2, 24, 16, 5, 6, 2, 1);
  add(2, 16, 32, 13, 37, 0, 2);
  add(9, 128, 16, 16, 16, 1, 1);  // several chunks
  return all;
}

std::string text_of(const WinogradShape& s) {
  return std::to_string(s.inputs) + " to " + std::to_string(s.outputs) + ", " + std::to_string(s.height) + "x" + std::to_string(s.width) +
         ", " + std::to_string(s.lanes) + " lanes";
}

std::vector<float> run(WinogradShape s, bool reversed, const std::vector<float>& weight, Winograd::Arguments arguments,
                       std::vector<float> y, int threads) {
  s.threads = threads;
  Winograd winograd(s, reversed);
  winograd.change_weight(weight.data());
  std::vector<float> scratch = scratch_of(winograd.scratch_bytes());
  arguments.y = y.data();
  winograd.run(arguments, scratch.data());
  return y;
}

}  // namespace

TEST(Winograd, ForwardIsTheConvolution) {
  for (const WinogradShape& s : shapes()) {
    SCOPED_TRACE(text_of(s));
    const std::vector<float> x = x_of(s).drawn("x"), before = y_of(s).drawn("y");
    const std::vector<float> weight = numbers(static_cast<size_t>(s.inputs * 9 * s.outputs), "w");
    const std::vector<float> bias = numbers(static_cast<size_t>(s.outputs), "b");
    std::vector<double> plain(before.size());
    for_each_product(s, [&](size_t in, size_t out, size_t w) { plain[out] += double{x[in]} * weight[w]; });
    std::vector<double> full = plain;
    for (int64_t n = 0; n < s.samples; ++n)
      for (int64_t c = 0; c < s.outputs; ++c)
        for (int64_t h = 0; h < s.out_height; ++h)
          for (int64_t w = 0; w < s.out_width; ++w) {
            double& value = full[y_of(s).at(n, c, h, w)];
            value += before[y_of(s).at(n, c, h, w)] + double{bias[static_cast<size_t>(c)]};
            value = value > 0 ? value : 0.25 * value;
          }
    const std::vector<float> mine = run(s, false, weight, {.x = x.data()}, before, 1);
    EXPECT_LT(error_of(mine, plain), kTolerance);
    EXPECT_EQ(run(s, false, weight, {.x = x.data()}, before, 2), mine);
    EXPECT_LT(error_of(run(s, false, weight, {.x = x.data(), .bias = bias.data(), .slope = 0.25f, .adds = true}, before, 1), full),
              kTolerance);
  }
}

TEST(Winograd, ErrorBackIsItsTranspose) {
  for (const WinogradShape& s : shapes()) {
    SCOPED_TRACE(text_of(s));
    const WinogradShape back = error_back_of(s);
    const std::vector<float> error = y_of(s).drawn("y"), before = x_of(s).drawn("x");
    const std::vector<float> weight = numbers(static_cast<size_t>(s.inputs * 9 * s.outputs), "w");  // [input][tap][output]
    std::vector<float> turned(weight.size());                                                       // [output][tap][input]
    for (int64_t i = 0; i < s.inputs; ++i)
      for (int64_t tap = 0; tap < 9; ++tap)
        for (int64_t o = 0; o < s.outputs; ++o)
          turned[static_cast<size_t>((o * 9 + tap) * s.inputs + i)] = weight[static_cast<size_t>((i * 9 + tap) * s.outputs + o)];
    std::vector<double> exact(before.size());
    for_each_product(s, [&](size_t in, size_t out, size_t w) { exact[in] += double{error[out]} * weight[w]; });
    EXPECT_LT(error_of(run(back, true, turned, {.x = error.data()}, before, 1), exact), kTolerance);
    for (size_t i = 0; i < exact.size(); ++i) exact[i] += before[i];
    const std::vector<float> sum = run(back, true, turned, {.x = error.data(), .adds = true}, before, 1);
    EXPECT_LT(error_of(sum, exact), kTolerance);
    EXPECT_EQ(run(back, true, turned, {.x = error.data(), .adds = true}, before, 3), sum);
  }
}

TEST(Winograd, GradientSumsOverAllTiles) {
  for (WinogradShape s : shapes()) {
    SCOPED_TRACE(text_of(s));
    const std::vector<float> x = x_of(s).drawn("x"), error = y_of(s).drawn("y");
    const std::vector<float> before = numbers(static_cast<size_t>(s.inputs * 9 * s.outputs), "w");
    std::vector<double> exact(before.size());
    for_each_product(s, [&](size_t in, size_t out, size_t w) { exact[w] += double{x[in]} * error[out]; });
    std::vector<double> exact_bias(static_cast<size_t>(s.outputs));
    for (int64_t n = 0; n < s.samples; ++n)
      for (int64_t c = 0; c < s.outputs; ++c)
        for (int64_t h = 0; h < s.out_height; ++h)
          for (int64_t w = 0; w < s.out_width; ++w) exact_bias[static_cast<size_t>(c)] += error[y_of(s).at(n, c, h, w)];
    std::vector<float> first;
    for (const int threads : {1, 2}) {
      s.threads = threads;
      const WinogradGradient gradient(s);
      std::vector<float> scratch = scratch_of(gradient.scratch_bytes());
      std::vector<float> mine = before, bias(static_cast<size_t>(s.outputs), 1);
      gradient.run(x.data(), error.data(), mine.data(), false, scratch.data());
      EXPECT_LT(error_of(mine, exact), kTolerance);
      if (threads == 1) first = mine;
      EXPECT_EQ(mine, first);
      gradient.run(x.data(), error.data(), mine.data(), true, scratch.data());
      std::vector<double> twice = exact;
      for (double& value : twice) value *= 2;
      EXPECT_LT(error_of(mine, twice), kTolerance);
      gradient.run_bias(error.data(), bias.data(), false);
      EXPECT_LT(error_of(bias, exact_bias), kTolerance);
    }
  }
}

// Rows and columns asked for together or apart: the same bits.
TEST(BlockedProduct, EachSumIsMadeByItself) {
  for (const int64_t lanes : {8, 16}) {
    const int64_t rows = 2 * lanes, depth = 544, columns = 5 * lanes;
    for (const bool transposed : {false, true}) {
      const std::vector<float> a = numbers(static_cast<size_t>(rows * depth), "a"), b = numbers(static_cast<size_t>(depth * columns), "b");
      std::vector<float> c(static_cast<size_t>(rows * columns)), parts = c;
      BlockedProduct product{.a = a.data(),
                             .a_block = (transposed ? depth : rows) * lanes,
                             .b = b.data(),
                             .b_block = depth * lanes,
                             .c = c.data(),
                             .c_block = rows * lanes,
                             .c_row = lanes,
                             .rows = rows,
                             .depth = depth,
                             .columns = columns,
                             .transposed = transposed};
      multiply_blocked(lanes, product);
      double exact = 0;  // of row 1, column lanes + 2
      for (int64_t k = 0; k < depth; ++k) {
        const int64_t at = transposed ? k * lanes + 1 : k / lanes * rows * lanes + lanes + k % lanes;
        exact += double{a[static_cast<size_t>(at)]} * b[static_cast<size_t>((depth + k) * lanes + 2)];
      }
      EXPECT_NEAR(c[static_cast<size_t>((rows + 1) * lanes + 2)], exact, 1e-4);
      for (int64_t column = 0; column < columns; column += lanes) {
        BlockedProduct one = product;
        one.b += column * depth;
        one.c = parts.data() + column * rows;
        one.columns = lanes;
        multiply_blocked(lanes, one);
      }
      EXPECT_EQ(parts, c) << lanes << " lanes";
    }
  }
}

}  // namespace millrace::cpu
