// Floating point on chained elements: gradients by finite differences, the declared order, functions by pieces.
#include "fpga/pe_chain/arithmetic/real_steps.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>

namespace millrace {

namespace {

template <typename T>
std::vector<T> numbers(std::mt19937& random, int64_t count, double most) {
  std::uniform_real_distribution<double> draw(-most, most);
  std::vector<T> made(static_cast<size_t>(count));
  for (T& value : made) value = static_cast<T>(draw(random));
  return made;
}

template <typename T>
RealLayer<T> layer_of(std::mt19937& random, CellKind cell, int64_t hidden, int64_t projection) {
  RealLayer<T> layer{.cell = cell,
                     .hidden = hidden,
                     .projection = projection,
                     .hidden_weight = {},
                     .bias = {},
                     .hidden_bias = {},
                     .projection_weight = {}};
  layer.hidden_weight = numbers<T>(random, layer.gates() * hidden * layer.features(), 0.5);
  layer.bias = numbers<T>(random, layer.gates() * hidden, 0.5);
  layer.hidden_bias = numbers<T>(random, hidden, 0.5);
  layer.projection_weight = numbers<T>(random, projection * hidden, 0.5);
  return layer;
}

template <typename T>
RealState<T> zero_state_of(const RealLayer<T>& layer) {
  return {std::vector<T>(static_cast<size_t>(layer.features())), std::vector<T>(static_cast<size_t>(layer.hidden))};
}
template <typename T>
RealBackState<T> zero_back_of(const RealLayer<T>& layer) {
  return {std::vector<T>(static_cast<size_t>(layer.gates() * layer.hidden)), std::vector<T>(static_cast<size_t>(layer.hidden))};
}

}  // namespace

TEST(RealSteps, GradientsAreFiniteDifferences) {
  std::mt19937 random(21);
  const std::pair<CellKind, int64_t> kinds[] = {
      {CellKind::kLstm, 0}, {CellKind::kLstm, 4}, {CellKind::kGru, 0}, {CellKind::kVanillaTanh, 0}, {CellKind::kVanillaRelu, 0}};
  for (const auto& [cell, projection] : kinds) {
    const RealLayer<double> layer = layer_of<double>(random, cell, 7, projection);
    const RealSteps<double> steps(layer, {{0, 7}}, {.elements = 4});
    constexpr int64_t kSteps = 4;
    std::vector<double> sums = numbers<double>(random, kSteps * layer.gates() * 7, 1);
    const std::vector<double> errors = numbers<double>(random, kSteps * layer.features(), 1);
    const auto loss = [&] {
      RealState<double> state = zero_state_of(layer);
      RealKept<double> kept;
      const std::vector<double> h = steps.forward(sums, kSteps, state, kept);
      double sum = 0;
      for (size_t i = 0; i < h.size(); ++i) sum += h[i] * errors[i];
      return sum;
    };
    RealState<double> state = zero_state_of(layer);
    RealKept<double> kept;
    steps.forward(sums, kSteps, state, kept);
    RealBackState<double> back_state = zero_back_of(layer);
    const RealErrors<double> back = steps.back(errors, kSteps, kept, back_state);
    for (size_t i = 0; i < sums.size(); ++i) {
      constexpr double kBy = 1e-6;
      const double was = sums[i];
      sums[i] = was + kBy;
      const double above = loss();
      sums[i] = was - kBy;
      const double below = loss();
      sums[i] = was;
      ASSERT_NEAR(back.sums[i], (above - below) / (2 * kBy), 1e-6 * std::fmax(std::fabs(back.sums[i]), 1e-2))
          << static_cast<int>(cell) << ": sum " << i;
    }
  }
}

TEST(ChainSum, PartsDoNotMatter) {
  std::mt19937 random(22);
  for (int trial = 0; trial < 500; ++trial) {
    const auto inputs = static_cast<int64_t>(1 + random() % 200);
    const std::vector<float> a = numbers<float>(random, inputs, 2), b = numbers<float>(random, inputs, 2);
    EXPECT_EQ(chain_sum<float>({inputs, 1}, a.data(), b.data()), chain_sum<float>({inputs, 2}, a.data(), b.data()));
  }
}

// A lane after the other, as the header declares it.
template <typename T>
T sum_by_lanes(const std::vector<T>& weights, const std::vector<T>& elements) {
  const size_t half = (weights.size() + 1) / 2, lanes = kAccumulatorLanes;
  std::vector<T> sums(2 * lanes);
  for (size_t i = 0; i < weights.size(); ++i) {
    T& lane = i < half ? sums[i % lanes] : sums[lanes + (i - half) % lanes];
    lane = flushed(lane + flushed(weights[i] * elements[i]));
  }
  return tree_sum(sums.data(), static_cast<int64_t>(sums.size()));
}

template <typename T>
void expect_lanes_at_once(uint32_t seed) {
  std::mt19937 random(seed);
  int64_t small = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const auto inputs = static_cast<int64_t>(1 + random() % 200);
    std::vector<T> a = numbers<T>(random, inputs, 2), b = numbers<T>(random, inputs, 2);
    for (T& value : a)  // around the smallest normalised number, and zeros of both signs
      if (random() % 3 == 0) value *= random() % 4 == 0 ? T{-0.0} : std::numeric_limits<T>::min();
    const T sum = chain_sum<T>({inputs, 1}, a.data(), b.data()), expected = sum_by_lanes(a, b);
    EXPECT_EQ(std::memcmp(&sum, &expected, sizeof(T)), 0) << sum << " and " << expected << " of " << inputs;
    for (size_t i = 0; i < a.size(); ++i) small += a[i] * b[i] != 0 && flushed(a[i] * b[i]) == 0 ? 1 : 0;
  }
  EXPECT_GT(small, 1000);
}
TEST(ChainSum, LanesAtOnceAreALaneAfterTheOther) {
  expect_lanes_at_once<float>(23);
  expect_lanes_at_once<double>(24);
}

// h of a layer that projects, as the header declares it: input i to unit i mod 4, zeros behind the last, four sums in two pairs.
TEST(RealSteps, ProjectionsAreDealtToFourUnits) {
  std::mt19937 random(25);
  for (const auto& [hidden, features] : {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {50, 20}, {131, 9}}) {
    const RealLayer<float> layer = layer_of<float>(random, CellKind::kLstm, hidden, features);
    RealState<float> state = zero_state_of(layer);
    RealKept<float> kept;
    RealSteps<float>(layer, {{0, hidden}}, {.elements = 8}).forward(numbers<float>(random, 4 * hidden, 2), 1, state, kept);
    for (int64_t feature = 0; feature < features; ++feature) {
      std::array<std::vector<float>, 4> weights, units;
      for (int64_t i = 0; i < (hidden + 3) / 4 * 4; ++i) {
        const bool there = i < hidden;
        weights[static_cast<size_t>(i % 4)].push_back(there ? layer.projection_weight[static_cast<size_t>(feature * hidden + i)] : 0);
        units[static_cast<size_t>(i % 4)].push_back(there ? kept.units[static_cast<size_t>(i)] : 0);
      }
      std::array<float, 4> sums{};
      for (size_t unit = 0; unit < 4; ++unit) sums[unit] = sum_by_lanes(weights[unit], units[unit]);
      EXPECT_EQ(state.hidden[static_cast<size_t>(feature)], (sums[0] + sums[1]) + (sums[2] + sums[3])) << feature << " of " << hidden;
    }
  }
}

TEST(RealSteps, BitsDoNotDependOnBoardsOrElements) {
  std::mt19937 random(23);
  // The last one projects.
  for (const int kind : {0, 1, 2, 3, 4}) {
    const int64_t hidden = kind < 4 ? 37 : 36, features = kind < 4 ? 37 : 24;
    const CellKind cell = std::array{CellKind::kLstm, CellKind::kGru, CellKind::kVanillaTanh, CellKind::kVanillaRelu,
                                     CellKind::kLstm}[static_cast<size_t>(kind)];
    const RealLayer<float> layer = layer_of<float>(random, cell, hidden, kind < 4 ? 0 : features);
    const std::vector<float> sums = numbers<float>(random, 3 * layer.gates() * hidden, 1), errors = numbers<float>(random, 3 * features, 1);
    const std::vector<std::vector<UnitRange>> boards =
        kind < 4 ? std::vector<std::vector<UnitRange>>{{{0, 37}}, {{0, 20}, {20, 37}}, {{0, 5}, {5, 6}, {6, 37}}}
                 : std::vector<std::vector<UnitRange>>{{{0, 36}}, {{0, 21}, {21, 36}}, {{0, 3}, {3, 6}, {6, 36}}};
    std::vector<float> first_h, first_d;
    for (const auto& ranges : boards)
      for (const int64_t elements : {8, 30, 64, 128}) {
        const RealSteps<float> steps(layer, ranges, {.elements = elements});
        RealState<float> state = zero_state_of(layer);
        RealBackState<float> back_state = zero_back_of(layer);
        RealKept<float> kept;
        const std::vector<float> h = steps.forward(sums, 3, state, kept);
        const RealErrors<float> back = steps.back(errors, 3, kept, back_state);
        if (first_h.empty()) {
          first_h = h;
          first_d = back.sums;
        }
        EXPECT_EQ(h, first_h);
        EXPECT_EQ(back.sums, first_d);
      }
  }
}

// What comes in without a leading one counts as zero wherever it comes in, as the engine's operators take it; a record keeps the state as
// it came.
TEST(RealSteps, NumbersThatAreNotNormalisedComeInAsZero) {
  constexpr int64_t kSteps = 3, kUnits = 19;
  std::mt19937 random(25);
  // One in three, where all else is so large that what is left of it shows.
  const auto drawn = [&](int64_t count, double most) {
    std::vector<float> made = numbers<float>(random, count, most);
    for (float& value : made)
      if (random() % 3 == 0) value = std::bit_cast<float>(static_cast<uint32_t>((random() & 0x807fffffU) | 1U));
    return made;
  };
  const auto normal = [](std::vector<float> values) {
    for (float& value : values) value = flushed(value);
    return values;
  };
  int64_t different = 0;
  for (const CellKind cell : {CellKind::kLstm, CellKind::kGru, CellKind::kVanillaTanh, CellKind::kVanillaRelu})
    for (const int64_t projection : {0, 7}) {
      if (projection > 0 && cell != CellKind::kLstm) continue;
      for (const double scale : {1.0, 1e-30}) {
        const int64_t gates = gates_of(cell), features = projection > 0 ? projection : kUnits;
        const double given = scale < 1 ? 1e-37 : 1;
        RealLayer<float> layer{.cell = cell,
                               .hidden = kUnits,
                               .projection = projection,
                               .hidden_weight = drawn(gates * kUnits * features, scale < 1 ? 1e-37 : 1e20),
                               .bias = drawn(gates * kUnits, given),
                               .hidden_bias = drawn(kUnits, given),
                               .projection_weight = drawn(projection * kUnits, 1e20)};
        const RealState<float> state{drawn(features, given), drawn(kUnits, given)};
        const RealBackState<float> back_state{drawn(gates * kUnits, given), drawn(kUnits, given)};
        const std::vector<float> sums = drawn(kSteps * gates * kUnits, given), errors = drawn(kSteps * features, given);
        const RealLayer<float> other{cell,
                                     kUnits,
                                     projection,
                                     normal(layer.hidden_weight),
                                     normal(layer.bias),
                                     normal(layer.hidden_bias),
                                     normal(layer.projection_weight)};
        const RealSteps<float> steps(layer, {{0, kUnits}}, {.elements = 4}), plain(other, {{0, kUnits}}, {.elements = 4});
        RealState<float> at = state, plain_at{normal(state.hidden), normal(state.cell)};
        RealKept<float> kept, plain_kept;
        const std::vector<float> h = steps.forward(sums, kSteps, at, kept);
        const auto bits = [](const std::vector<float>& values) {
          std::vector<uint32_t> made;
          for (const float value : values) made.push_back(std::isnan(value) ? 0x7fc00000U : std::bit_cast<uint32_t>(value));
          return made;
        };
        SCOPED_TRACE(testing::Message() << static_cast<int>(cell) << ", projection " << projection << ", scale " << scale);
        EXPECT_EQ(bits(h), bits(plain.forward(normal(sums), kSteps, plain_at, plain_kept)));
        EXPECT_EQ(bits(kept.gates), bits(plain_kept.gates));
        EXPECT_EQ(bits(kept.bound), bits(plain_kept.bound));
        EXPECT_EQ(bits(normal(kept.before)), bits(plain_kept.before));
        different += bits(kept.before) == bits(plain_kept.before) ? 0 : 1;
        RealBackState<float> back_at = back_state, plain_back{normal(back_state.errors), normal(back_state.carried)};
        const RealErrors<float> made = steps.back(errors, kSteps, kept, back_at),
                                expected = plain.back(normal(errors), kSteps, plain_kept, plain_back);
        EXPECT_EQ(bits(made.sums), bits(expected.sums));
        EXPECT_EQ(bits(made.candidates), bits(expected.candidates));
        EXPECT_EQ(bits(made.features), bits(expected.features));
        EXPECT_EQ(bits(back_at.errors), bits(plain_back.errors));
        if (gates > 1) {  // else nothing is carried
          EXPECT_EQ(bits(back_at.carried), bits(plain_back.carried));
        }
      }
    }
  EXPECT_GE(different, 6) << "no state came in that was not normalised";
}

// Beside double over a thousand steps.
TEST(RealSteps, FloatStaysBesideDouble) {
  std::mt19937 random(24);
  for (const auto& [cell, projection] : {std::pair<CellKind, int64_t>{CellKind::kLstm, 0}, {CellKind::kLstm, 8}, {CellKind::kGru, 0}}) {
    const RealLayer<float> layer = layer_of<float>(random, cell, 16, projection);
    const auto wide = [](const std::vector<float>& v) { return std::vector<double>(v.begin(), v.end()); };
    const RealLayer<double> exact{
        cell, 16, projection, wide(layer.hidden_weight), wide(layer.bias), wide(layer.hidden_bias), wide(layer.projection_weight)};
    constexpr int64_t kSteps = 1000;
    const std::vector<float> sums = numbers<float>(random, kSteps * layer.gates() * 16, 1);
    RealState<float> state = zero_state_of(layer);
    RealState<double> exact_state = zero_state_of(exact);
    RealKept<float> kept;
    RealKept<double> exact_kept;
    const std::vector<float> h = RealSteps<float>(layer, {{0, 16}}, {}).forward(sums, kSteps, state, kept);
    const std::vector<double> exact_h = RealSteps<double>(exact, {{0, 16}}, {}).forward(wide(sums), kSteps, exact_state, exact_kept);
    for (size_t i = 0; i < h.size(); ++i) ASSERT_NEAR(h[i], exact_h[i], 1e-5) << i;
  }
}

// A piece's parabola through three places of the exact function, each of its three figures rounded to single precision once, and so are
// the two products and sums of a value: written here once more, to the bit.
float by_pieces(double (*exact)(double), float x) {
  const float place = 32 * x;
  const int piece = static_cast<int>(place);
  const std::array<double, 3> at = piece == 0 ? std::array{0.0, 0.4641016, 0.9282032} : std::array{0.0669873, 0.5, 0.9330127};
  std::array<double, 3> y{};
  for (size_t k = 0; k < 3; ++k) y[k] = exact((piece + at[k]) / 32);
  const double chord = (y[1] - y[0]) / (at[1] - at[0]), next = (y[2] - y[1]) / (at[2] - at[1]);
  const double bend = (next - chord) / (at[2] - at[0]), slope = chord - bend * (at[0] + at[1]);
  const auto constant = static_cast<float>(y[0] - at[0] * (slope + bend * at[0]));
  const float within = place - static_cast<float>(piece);
  return constant + within * (static_cast<float>(slope) + within * static_cast<float>(bend));
}

TEST(RealFunctions, AreTheirPiecesToTheBit) {
  for (int i = 0; i < 512 * 64; ++i) {
    const float x = static_cast<float>(i) / (32 * 64);
    ASSERT_EQ(tanh_by_pieces(x), by_pieces([](double z) { return std::tanh(z); }, x)) << x;
    ASSERT_EQ(sigmoid_by_pieces(x), by_pieces([](double z) { return 1 / (1 + std::exp(-z)); }, x)) << x;
  }
}

TEST(RealFunctions, AreNearTheExactOnes) {
  double worst_sigmoid = 0, worst_tangent = 0;
  for (int i = -160000; i <= 160000; ++i) {
    const float x = static_cast<float>(i) / 10000;
    worst_sigmoid = std::fmax(worst_sigmoid, std::fabs(sigmoid_by_pieces(x) - 1 / (1 + std::exp(-static_cast<double>(x)))));
    worst_tangent = std::fmax(worst_tangent, std::fabs(tanh_by_pieces(x) - std::tanh(static_cast<double>(x))));
  }
  EXPECT_LT(worst_sigmoid, 4e-7);
  EXPECT_LT(worst_tangent, 4e-7);
  EXPECT_EQ(sigmoid_by_pieces(100), 1);
  EXPECT_EQ(tanh_by_pieces(-100), -1);
  EXPECT_EQ(sigmoid_by_pieces(-1000), 0);
}

}  // namespace millrace
