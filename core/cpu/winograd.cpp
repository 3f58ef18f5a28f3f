#include "core/cpu/winograd.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/cpu/blocked_product.h"
#include "core/cpu/lanes.h"
#include "core/cpu/tensor.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

constexpr int64_t kTaps = 9, kTile = 4, kWindow = 6;
constexpr int64_t kComponents = kWindow * kWindow;
// Between components, beyond their size: without it those of one tile would share a set of the cache.
constexpr int64_t kSkew = 16;

int64_t up_to(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

// Floats of one component of a matrix of so many rows.
int64_t component_of(int64_t channels, int64_t rows, int64_t lanes) { return blocks_of(channels, lanes) * rows * lanes + kSkew; }

// The transforms along one side, after Lavin and Gray (2016), at the points 0, 1, -1, 2, -2 and infinity.
struct OfInput {
  template <typename Vector>
  void operator()(const Vector* d, Vector* v) const {
    const Vector even = d[4] - 4 * d[2], odd = d[3] - 4 * d[1];
    const Vector near = d[4] - d[2], twice = 2 * (d[3] - d[1]);
    v[0] = 4 * (d[0] - d[2]) + near;
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = near + twice;
    v[4] = near - twice;
    v[5] = 4 * (d[1] - d[3]) + (d[5] - d[3]);
  }
};
struct OfWeight {
  template <typename Vector>
  void operator()(const Vector* g, Vector* u) const {
    const Vector ends = (g[0] + g[2]) * (-1.0f / 6), middle = g[1] * (-1.0f / 6);
    const Vector far = g[0] * (1.0f / 24) + g[2] * (1.0f / 6), half = g[1] * (1.0f / 12);
    u[0] = 0.25f * g[0];
    u[1] = ends + middle;
    u[2] = ends - middle;
    u[3] = far + half;
    u[4] = far - half;
    u[5] = g[2];
  }
};
struct OfProduct {
  template <typename Vector>
  void operator()(const Vector* m, Vector* y) const {
    const Vector sum = m[1] + m[2], difference = m[1] - m[2];
    const Vector far_sum = m[3] + m[4], far_difference = m[3] - m[4];
    y[0] = m[0] + sum + far_sum;
    y[1] = difference + 2 * far_difference;
    y[2] = sum + 4 * far_sum;
    y[3] = difference + 8 * far_difference + m[5];
  }
};
// The transposes of the last two.
struct OfError {
  template <typename Vector>
  void operator()(const Vector* y, Vector* z) const {
    const Vector even = y[0] + y[2], odd = y[1] + y[3];
    const Vector far_even = y[0] + 4 * y[2], far_odd = 2 * y[1] + 8 * y[3];
    z[0] = y[0];
    z[1] = even + odd;
    z[2] = even - odd;
    z[3] = far_even + far_odd;
    z[4] = far_even - far_odd;
    z[5] = y[3];
  }
};
struct OfGradient {
  template <typename Vector>
  void operator()(const Vector* u, Vector* g) const {
    const Vector sum = (u[1] + u[2]) * (1.0f / 6), far_sum = u[3] + u[4];
    g[0] = 0.25f * u[0] - sum + far_sum * (1.0f / 24);
    g[1] = (u[2] - u[1]) * (1.0f / 6) + (u[3] - u[4]) * (1.0f / 12);
    g[2] = far_sum * (1.0f / 6) - sum + u[5];
  }
};

// Both sides: read(row, column, vector) gives kFrom x kFrom, write(row, column, vector) takes kTo x kTo.
template <int kVector, int64_t kFrom, int64_t kTo, typename Transform, typename Read, typename Write>
inline void transform(const Transform& along, const Read& read, const Write& write) {
  using Vector = typename VectorOf<kVector>::Type;
  Vector middle[size_t{kTo}][size_t{kFrom}];
  for (int64_t column = 0; column < kFrom; ++column) {
    Vector from[size_t{kFrom}], to[size_t{kTo}];
    for (int64_t row = 0; row < kFrom; ++row) read(row, column, from[row]);
    along(from, to);
    for (int64_t row = 0; row < kTo; ++row) middle[row][column] = to[row];
  }
  for (int64_t row = 0; row < kTo; ++row) {
    Vector to[size_t{kTo}];
    along(middle[row], to);
    for (int64_t column = 0; column < kTo; ++column) write(row, column, to[column]);
  }
}

// A stretch of tiles of one block of channels.
struct TileWork {
  const WinogradTiles* tiles = nullptr;
  int64_t begin = 0, count = 0;
  const float* map = nullptr;  // of the block's first sample: [row][column][channel]
  int64_t sample_stride = 0, height = 0, width = 0;
  int64_t pad_h = 0, pad_w = 0;
  float* components = nullptr;  // [component][tile]
  int64_t component = 0;        // floats from one to the next
};

// Windows of kSide x kSide positions into their 36 components.
template <int kVector, int64_t kSide, typename Transform>
inline void components_of_maps(const TileWork& work) {
  using Vector = typename VectorOf<kVector>::Type;
  for (int64_t i = 0; i < work.count; ++i) {
    const WinogradTiles::Place place = work.tiles->place(work.begin + i);
    const int64_t top = place.row - work.pad_h, left = place.column - work.pad_w;
    const float* const map = work.map + place.sample * work.sample_stride + (top * work.width + left) * kVector;
    float* const to = work.components + i * kVector;
    const auto write = [&](int64_t row, int64_t column, const Vector& value) {
      store(to + (row * kWindow + column) * work.component, value);
    };
    if (top >= 0 && left >= 0 && top + kSide <= work.height && left + kSide <= work.width) {
      transform<kVector, kSide, kWindow>(
          Transform(), [&](int64_t row, int64_t column, Vector& value) { load(map + (row * work.width + column) * kVector, value); },
          write);
      continue;
    }
    transform<kVector, kSide, kWindow>(
        Transform(),
        [&](int64_t row, int64_t column, Vector& value) {
          value = Vector{};
          if (top + row >= 0 && top + row < work.height && left + column >= 0 && left + column < work.width)
            load(map + (row * work.width + column) * kVector, value);
        },
        write);
  }
}
template <int kVector>
inline void components_of_input(const TileWork& work) {
  components_of_maps<kVector, kWindow, OfInput>(work);
}
template <int kVector>
inline void components_of_error(const TileWork& work) {
  components_of_maps<kVector, kTile, OfError>(work);
}

struct OutputWork {
  TileWork tiles;  // the map is written
  float* map = nullptr;
  const float* bias = nullptr;  // a whole block
  bool activates = false, adds = false;
  float slope = 0;
};

template <int kVector>
inline void maps_of_components(const OutputWork& work) {
  using Vector = typename VectorOf<kVector>::Type;
  const TileWork& tiles = work.tiles;
  Vector bias;
  load(work.bias, bias);
  for (int64_t i = 0; i < tiles.count; ++i) {
    const WinogradTiles::Place place = tiles.tiles->place(tiles.begin + i);
    const float* const from = tiles.components + i * kVector;
    float* const map = work.map + place.sample * tiles.sample_stride + (place.row * tiles.width + place.column) * kVector;
    const int64_t rows = std::min(kTile, tiles.height - place.row), columns = std::min(kTile, tiles.width - place.column);
    transform<kVector, kWindow, kTile>(
        OfProduct(), [&](int64_t row, int64_t column, Vector& value) { load(from + (row * kWindow + column) * tiles.component, value); },
        [&](int64_t row, int64_t column, const Vector& product) {
          if (row >= rows || column >= columns) return;
          float* const to = map + (row * tiles.width + column) * kVector;
          Vector value = product + bias;
          if (work.adds) {
            Vector before;
            load(to, before);
            value += before;
          }
          if (work.activates) value = value > 0 ? value : value * work.slope;
          store(to, value);
        });
  }
}

// Taps of one channel of x and one block of channels of y.
struct WeightWork {
  float* taps;  // [tap][channel]
  int64_t tap_stride;
  int64_t width;  // channels of the block
  bool reversed, adds;
  float* components;
  int64_t component;
};

template <int kVector>
inline void components_of_weight(const WeightWork& work) {
  using Vector = typename VectorOf<kVector>::Type;
  transform<kVector, 3, kWindow>(
      OfWeight(),
      [&](int64_t row, int64_t column, Vector& value) {
        const int64_t tap = row * 3 + column;
        const float* const from = work.taps + (work.reversed ? kTaps - 1 - tap : tap) * work.tap_stride;
        if (work.width == kVector) return load(from, value);
        float padded[size_t{kVector}] = {};
        std::copy_n(from, work.width, padded);
        load(padded, value);
      },
      [&](int64_t row, int64_t column, const Vector& value) { store(work.components + (row * kWindow + column) * work.component, value); });
}

template <int kVector>
inline void weight_of_components(const WeightWork& work) {
  using Vector = typename VectorOf<kVector>::Type;
  transform<kVector, kWindow, 3>(
      OfGradient(),
      [&](int64_t row, int64_t column, Vector& value) { load(work.components + (row * kWindow + column) * work.component, value); },
      [&](int64_t row, int64_t column, const Vector& value) {
        float* const to = work.taps + (row * 3 + column) * work.tap_stride;
        float lanes[size_t{kVector}];
        store(lanes, value);
        if (work.adds)
          for (int64_t lane = 0; lane < work.width; ++lane) to[lane] += lanes[lane];
        else
          for (int64_t lane = 0; lane < work.width; ++lane) to[lane] = lanes[lane];
      });
}

struct BiasWork {
  const float* map;
  int64_t positions;
  float* sums;
};
template <int kVector>
inline void add_positions(const BiasWork& work) {
  using Vector = typename VectorOf<kVector>::Type;
  Vector sum;
  load(work.sums, sum);
  for (int64_t i = 0; i < work.positions; ++i) {
    Vector value;
    load(work.map + i * kVector, value);
    sum += value;
  }
  store(work.sums, sum);
}

// The one of a pair of functions that has as many lanes.
template <auto kWide, auto kNarrow, typename Work>
void run_lanes(int64_t lanes, const Work& work) {
  if (lanes == 16)
    vectorised<kWide>(work);
  else
    vectorised<kNarrow>(work);
}

// Every block of a map into its part of the components.
template <auto kWide, auto kNarrow>
void transform_maps(const WinogradShape& shape, int64_t channels, TileWork work, int64_t rows) {
  const int64_t lanes = shape.lanes, blocks = blocks_of(channels, lanes), plane = work.height * work.width * lanes;
  work.sample_stride = blocks * plane;
  work.component = component_of(channels, rows, lanes);
  parallel_for(shape.threads, blocks, [&](int64_t block) {
    TileWork one = work;
    one.map += block * plane;
    one.components += block * rows * lanes;
    run_lanes<kWide, kNarrow>(lanes, one);
  });
}

// visit(channel of x, block of y)
template <typename Visit>
void for_each_weight(const WinogradShape& shape, const Visit& visit) {
  parallel_for(shape.threads, shape.inputs, [&](int64_t input) {
    for (int64_t block = 0; block < blocks_of(shape.outputs, shape.lanes); ++block) visit(input, block);
  });
}

void transform_input(const WinogradShape& shape, TileWork work, int64_t rows) {
  work.height = shape.height, work.width = shape.width;
  work.pad_h = shape.pad_h, work.pad_w = shape.pad_w;
  transform_maps<components_of_input<16>, components_of_input<8>>(shape, shape.inputs, work, rows);
}
void transform_error(const WinogradShape& shape, TileWork work, int64_t rows) {
  work.height = shape.out_height, work.width = shape.out_width;
  transform_maps<components_of_error<16>, components_of_error<8>>(shape, shape.outputs, work, rows);
}

}  // namespace

bool winograd_serves(const Engine& engine, const Conv2d& conv, const Shape& input, const Shape& output) {
  const auto blocked = [&](const Shape& shape) { return channel_block(shape, engine.vector_length) == engine.vector_length; };
  return loop_instruction_set() >= InstructionSet::kAvx2 && conv.kernel_h == 3 && conv.kernel_w == 3 && conv.stride_h == 1 &&
         conv.stride_w == 1 && conv.dilation_h == 1 && conv.dilation_w == 1 && conv.groups == 1 && conv.pad_h <= 2 && conv.pad_w <= 2 &&
         blocked(input) && blocked(output);
}

WinogradShape error_back_of(const WinogradShape& forward) {
  WinogradShape back = forward;
  std::swap(back.inputs, back.outputs);
  std::swap(back.height, back.out_height);
  std::swap(back.width, back.out_width);
  back.pad_h = 2 - forward.pad_h;
  back.pad_w = 2 - forward.pad_w;
  return back;
}

WinogradTiles::WinogradTiles(const WinogradShape& shape, int64_t bytes_near, int64_t least, int64_t most)
    : samples_(shape.samples), rows_((shape.out_height + kTile - 1) / kTile), columns_((shape.out_width + kTile - 1) / kTile) {
  const int64_t of_tile = kComponents * static_cast<int64_t>(sizeof(float)) * (shape.inputs + shape.outputs);
  // Whole tiles of the product and, so that the last chunk is none of a few rows, even.
  const int64_t wanted = std::clamp(bytes_near / of_tile, least, most);
  const int64_t chunks = (count() + wanted - 1) / wanted;
  chunk_ = up_to((count() + chunks - 1) / chunks, 8);
}

Winograd::Winograd(const WinogradShape& shape, bool reversed)
    : shape_(shape),
      reversed_(reversed),
      tiles_(shape, int64_t{1} << 20, 32, 128),
      weight_(to_size(kComponents * component_of(shape.outputs, up_to(shape.inputs, shape.lanes), shape.lanes)) * sizeof(float)) {}

size_t Winograd::scratch_bytes() const {
  const int64_t floats =
      component_of(shape_.inputs, tiles_.chunk(), shape_.lanes) + component_of(shape_.outputs, tiles_.chunk(), shape_.lanes);
  return to_size(kComponents * floats) * sizeof(float);
}

void Winograd::change_weight(const float* weight) {
  const int64_t inputs = up_to(shape_.inputs, shape_.lanes), outputs = shape_.outputs;
  auto* const components = reinterpret_cast<float*>(weight_.data());
  for_each_weight(shape_, [&](int64_t input, int64_t block) {
    run_lanes<components_of_weight<16>, components_of_weight<8>>(
        shape_.lanes, WeightWork{.taps = const_cast<float*>(weight) + input * kTaps * outputs + block * shape_.lanes,
                                 .tap_stride = outputs,
                                 .width = std::min(shape_.lanes, outputs - block * shape_.lanes),
                                 .reversed = reversed_,
                                 .adds = false,
                                 .components = components + (block * inputs + input) * shape_.lanes,
                                 .component = component_of(outputs, inputs, shape_.lanes)});
  });
}

void Winograd::run(const Arguments& arguments, float* scratch) const {
  const WinogradShape& s = shape_;
  const int64_t lanes = s.lanes, rows = tiles_.chunk(), inputs = up_to(s.inputs, lanes), outputs = up_to(s.outputs, lanes);
  const int64_t of_input = component_of(s.inputs, rows, lanes), of_output = component_of(s.outputs, rows, lanes);
  const int64_t of_weight = component_of(s.outputs, inputs, lanes);
  const auto* const weight = reinterpret_cast<const float*>(weight_.data());
  float* const products = scratch + kComponents * of_input;
  const int64_t plane = s.out_height * s.out_width * lanes;
  for (int64_t begin = 0; begin < tiles_.count(); begin += rows) {
    const int64_t count = std::min(rows, tiles_.count() - begin);
    transform_input(s, {.tiles = &tiles_, .begin = begin, .count = count, .map = arguments.x, .components = scratch}, rows);
    parallel_for(s.threads, kComponents, [&](int64_t component) {
      multiply_blocked(lanes, {.a = scratch + component * of_input,
                               .a_block = rows * lanes,
                               .b = weight + component * of_weight,
                               .b_block = inputs * lanes,
                               .c = products + component * of_output,
                               .c_block = rows * lanes,
                               .c_row = lanes,
                               .rows = up_to(count, rows_of_tile(lanes)),
                               .depth = inputs,
                               .columns = outputs});
    });
    parallel_for(s.threads, outputs / lanes, [&](int64_t block) {
      OutputWork out;
      out.tiles = {.tiles = &tiles_,
                   .begin = begin,
                   .count = count,
                   .sample_stride = outputs / lanes * plane,
                   .height = s.out_height,
                   .width = s.out_width,
                   .components = products + block * rows * lanes,
                   .component = of_output};
      out.map = arguments.y + block * plane;
      float bias[16] = {};
      if (arguments.bias != nullptr) std::copy_n(arguments.bias + block * lanes, std::min(lanes, s.outputs - block * lanes), bias);
      out.bias = bias;
      out.activates = arguments.slope.has_value(), out.slope = arguments.slope.value_or(1);
      out.adds = arguments.adds;
      run_lanes<maps_of_components<16>, maps_of_components<8>>(lanes, out);
    });
  }
}

WinogradGradient::WinogradGradient(const WinogradShape& forward) : shape_(forward), tiles_(forward, int64_t{4} << 20, 64, 256) {}

size_t WinogradGradient::scratch_bytes() const {
  const int64_t floats = component_of(shape_.inputs, tiles_.chunk(), shape_.lanes) +
                         component_of(shape_.outputs, tiles_.chunk(), shape_.lanes) +
                         component_of(shape_.outputs, up_to(shape_.inputs, shape_.lanes), shape_.lanes);
  return to_size(kComponents * floats) * sizeof(float);
}

void WinogradGradient::run(const float* x, const float* y_error, float* gradient, bool adds, float* scratch) const {
  const WinogradShape& s = shape_;
  const int64_t lanes = s.lanes, rows = tiles_.chunk(), inputs = up_to(s.inputs, lanes), outputs = up_to(s.outputs, lanes);
  const int64_t of_input = component_of(s.inputs, rows, lanes), of_error = component_of(s.outputs, rows, lanes);
  const int64_t of_weight = component_of(s.outputs, inputs, lanes);
  float* const errors = scratch + kComponents * of_input;
  float* const sums = errors + kComponents * of_error;
  for (int64_t begin = 0; begin < tiles_.count(); begin += rows) {
    const int64_t count = std::min(rows, tiles_.count() - begin);
    transform_input(s, {.tiles = &tiles_, .begin = begin, .count = count, .map = x, .components = scratch}, rows);
    transform_error(s, {.tiles = &tiles_, .begin = begin, .count = count, .map = y_error, .components = errors}, rows);
    parallel_for(s.threads, kComponents, [&](int64_t component) {
      multiply_blocked(lanes, {.a = scratch + component * of_input,
                               .a_block = rows * lanes,
                               .b = errors + component * of_error,
                               .b_block = rows * lanes,
                               .c = sums + component * of_weight,
                               .c_block = inputs * lanes,
                               .c_row = lanes,
                               .rows = inputs,
                               .depth = count,
                               .columns = outputs,
                               .transposed = true,
                               .adds = begin > 0});
    });
  }
  for_each_weight(s, [&](int64_t input, int64_t block) {
    run_lanes<weight_of_components<16>, weight_of_components<8>>(lanes,
                                                                 WeightWork{.taps = gradient + input * kTaps * s.outputs + block * lanes,
                                                                            .tap_stride = s.outputs,
                                                                            .width = std::min(lanes, s.outputs - block * lanes),
                                                                            .reversed = false,
                                                                            .adds = adds,
                                                                            .components = sums + (block * inputs + input) * lanes,
                                                                            .component = of_weight});
  });
}

void WinogradGradient::run_bias(const float* y_error, float* gradient, bool adds) const {
  const int64_t lanes = shape_.lanes, blocks = blocks_of(shape_.outputs, lanes), positions = shape_.out_height * shape_.out_width;
  parallel_for(shape_.threads, blocks, [&](int64_t block) {
    float sums[16] = {};
    for (int64_t sample = 0; sample < shape_.samples; ++sample)
      run_lanes<add_positions<16>, add_positions<8>>(
          lanes, BiasWork{.map = y_error + (sample * blocks + block) * positions * lanes, .positions = positions, .sums = sums});
    for (int64_t lane = 0; lane < std::min(lanes, shape_.outputs - block * lanes); ++lane)
      gradient[block * lanes + lane] = sums[lane] + (adds ? gradient[block * lanes + lane] : 0);
  });
}

}  // namespace millrace::cpu
