// Convolutions whose operands are rounded to bf16, in the tiles of AMX: all three passes by our own products (tile_product.h), on any
// kernel, stride and dilation. oneDNN 2.6 has AMX only for activations with channels innermost, and without it bf16 multiplies no faster
// than fp32 on these processors. Sums, tensors, weights and gradients are fp32. No result depends on the number of threads.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/convolution_forms.h"
#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/tile_product.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

#if defined(__x86_64__)

namespace {

// With fewer samples tiles are so empty that fp32 is faster.
constexpr int64_t kFewestSamples = 4;
// A weight up to this size stays in the second-level cache while all rows of a map pass by.
constexpr int64_t kNearBytes = int64_t{640} << 10;
constexpr int64_t kPackedPositions = 8;  // at a time, for memory's sake
constexpr int64_t kSummedPositions = 8;

// A map as tiles see it; blocks are counted within a group.
struct TileMap {
  TileMap(const Shape& shape, const Layout& layout, int64_t groups)
      : plane(shape.plane()),
        width(shape.width),
        blocks(shape.channels / groups / kTileBlock),
        pairs((blocks + 1) / 2),
        steps(layout.block == kTileBlock ? MapSteps{layout.sample_stride(), kTileBlock * layout.plane, kTileBlock}
                                         : MapSteps{layout.sample_stride(), kTileBlock, layout.block}) {}

  int64_t plane, width, blocks, pairs;
  MapSteps steps;

  template <typename Number>
  Number* block_of(Number* map, int64_t group, int64_t block) const {
    return block < blocks ? map + (group * blocks + block) * steps.block : nullptr;
  }
};

bool has_tile_blocks(const Shape& shape, int64_t groups) {
  const int64_t block = channel_block(shape, kTileBlock);
  return (block == kTileBlock || block == shape.channels) && shape.width > 1 && shape.channels % groups == 0 &&
         shape.channels / groups % kTileBlock == 0;
}

// [position made][tap]: the position of the input, or -1; and the other way round.
struct TileReach {
  TileReach(const Conv2d& conv, const Shape& in, const Shape& out) {
    const int64_t taps = conv.kernel_h * conv.kernel_w;
    forward.assign(to_size(out.plane() * taps), -1);
    back.assign(to_size(in.plane() * taps), -1);
    for (int64_t made = 0; made < out.plane(); ++made)
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t row = made / out.width * conv.stride_h + tap / conv.kernel_w * conv.dilation_h - conv.pad_h;
        const int64_t column = made % out.width * conv.stride_w + tap % conv.kernel_w * conv.dilation_w - conv.pad_w;
        if (row < 0 || row >= in.height || column < 0 || column >= in.width) continue;
        const int64_t read = row * in.width + column;
        item(forward, made * taps + tap) = static_cast<int32_t>(read);
        item(back, read * taps + tap) = static_cast<int32_t>(made);
      }
  }
  std::vector<int32_t> forward, back;
};

class TileConvolution final : public CpuKernel {
 public:
  TileConvolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& conv)
      : CpuKernel(engine, spec),
        rows_(spec.micro_batch),
        groups_(conv.groups),
        taps_(conv.kernel_h * conv.kernel_w),
        in_(spec.inputs[0], layout_of(spec.inputs[0]), conv.groups),
        out_(spec.output, layout_of(spec.output), conv.groups),
        reach_(conv, spec.inputs[0], spec.output),
        geometry_(spec, conv, kTileBlock),
        weight_desc_(desc_of(geometry_.weight, geometry_.grouped ? Tag::gOIhw16i16o : Tag::OIhw16i16o)) {
    const int64_t tiles = groups_ * taps_ * 2;
    forward_weight_ = Buffer(to_size(tiles * out_.pairs * in_.pairs * kTileNumbers) * sizeof(Half));
    if (spec.input_error_needed) back_weight_ = Buffer(forward_weight_.bytes());
    const auto place = [](ScratchPlan& plan, int64_t numbers) { return plan.add(to_size(numbers) * sizeof(Half)); };
    ScratchPlan products;  // passes take turns
    packed_ = place(products, groups_ * std::max(row_numbers(in_), row_numbers(out_)));
    ScratchPlan sums;
    left_ = place(sums, groups_ * in_.blocks * in_.plane * rows_.deep_numbers());
    right_ = place(sums, groups_ * out_.blocks * out_.plane * rows_.deep_numbers());
    reserve(products);
    reserve(sums);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    const int64_t outputs = spec().output.channels, inputs = in_.blocks * kTileBlock;
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(
        make_parameter({outputs, inputs, taps_}, std::make_shared<WeightPacking>(geometry_.canonical_weight(), weight_desc_)));
    if (spec().bias) parameters.push_back(make_parameter({outputs, 1, 1}));
    return parameters;
  }

  void parameters_changed(std::span<const Tensor* const>) override { forward_stale_ = back_stale_ = true; }

  std::string implementation() const override { return "tiles:avx512_core_amx_bf16"; }

 protected:
  bool fuses_activation() const override { return spec().activation && onednn_activation(*spec().activation); }

  void run_forward(const ForwardArguments& arguments) override {
    if (std::exchange(forward_stale_, false)) pack_weights(own(arguments.parameters[0]).data(), false);
    pack_map(in_, own(arguments.inputs[0]).data());
    TileFinish finish{.to = own(arguments.output).data(),
                      .steps = out_.steps,
                      .bias = spec().bias ? own(arguments.parameters[1]).data() : nullptr,
                      .adds = spec().adds_to_output,
                      .activates = fuses_activation()};
    if (finish.activates) finish.slope = onednn_activation(*spec().activation)->second;
    multiply(in_, out_, forward_weight_, reach_.forward, finish);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    MILLRACE_CHECK(spec().input_error_needed, "{}: the error of its input is asked for, but the kernel was made without", spec().layer);
    if (std::exchange(back_stale_, false)) pack_weights(own(arguments.parameters[0]).data(), true);
    pack_map(out_, own(arguments.output_error).data());
    multiply(out_, in_, back_weight_, reach_.back,
             {.to = own(arguments.input_errors[0]).data(), .steps = in_.steps, .adds = arguments.adds[0] != 0});
  }

  void run_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(spec().trained, "{}: gradients are asked for, but the kernel was made frozen", spec().layer);
    const float* const error = own(arguments.output_error).data();
    pack_depths(in_, own(arguments.inputs[0]).data(), true, scratch<Half>(left_));
    pack_depths(out_, error, false, scratch<Half>(right_));
    sum_weights(own(arguments.gradients[0]).data(), arguments.adds);
    if (spec().bias) sum_errors(error, own(arguments.gradients[1]).data(), arguments.adds);
  }

 private:
  // Of one group.
  int64_t row_numbers(const TileMap& map) const { return map.pairs * map.plane * rows_.row_numbers(); }
  int64_t weight_floats() const { return taps_ * kTileBlock * kTileBlock; }  // of two blocks
  // The weight between two blocks of a group, or null where there are none.
  template <typename Number>
  Number* weight_of(Number* weight, int64_t group, int64_t output, int64_t input) const {
    if (output >= out_.blocks || input >= in_.blocks) return nullptr;
    return weight + ((group * out_.blocks + output) * in_.blocks + input) * weight_floats();
  }

  // visit(group and block or pair, positions) for all of a map.
  template <typename Visit>
  void for_each_stretch(int64_t blocks, int64_t plane, const Visit& visit) const {
    const int64_t stretches = (plane + kPackedPositions - 1) / kPackedPositions;
    parallel_for(threads(), groups_ * blocks * stretches, [&](int64_t index) {
      const int64_t begin = index % stretches * kPackedPositions;
      visit(index / stretches, Stretch{begin, std::min(plane, begin + kPackedPositions)});
    });
  }

  void pack_map(const TileMap& map, const float* values) {
    Half* const packed = scratch<Half>(packed_);
    for_each_stretch(map.pairs, map.plane, [&](int64_t at, const Stretch& positions) {
      const int64_t group = at / map.pairs, block = at % map.pairs * 2;
      pack_rows(rows_, map.steps, map.block_of(values, group, block), map.block_of(values, group, block + 1), positions,
                packed + at * map.plane * rows_.row_numbers());
    });
  }

  void pack_depths(const TileMap& map, const float* values, bool left, Half* to) {
    for_each_stretch(map.blocks, map.plane, [&](int64_t at, const Stretch& positions) {
      pack_depth(rows_, map.steps, map.block_of(values, at / map.blocks, at % map.blocks), left, positions,
                 to + at * map.plane * rows_.deep_numbers());
    });
  }

  // As [group][pair of made blocks][pair of read blocks][tap][made block of the pair].
  void pack_weights(const float* weight, bool back) {
    const TileMap &read = back ? out_ : in_, &made = back ? in_ : out_;
    Half* const packed = reinterpret_cast<Half*>((back ? back_weight_ : forward_weight_).data());
    parallel_for(threads(), groups_ * made.pairs * read.pairs, [&](int64_t index) {
      const int64_t from = index % read.pairs * 2, to = index / read.pairs % made.pairs * 2, group = index / read.pairs / made.pairs;
      for (int64_t i = 0; i < 2; ++i) {
        const float* const first = back ? weight_of(weight, group, from, to + i) : weight_of(weight, group, to + i, from);
        const float* const second = back ? weight_of(weight, group, from + 1, to + i) : weight_of(weight, group, to + i, from + 1);
        for (int64_t tap = 0; tap < taps_; ++tap) {
          const auto at_tap = [&](const float* blocks) { return blocks == nullptr ? nullptr : blocks + tap * kTileBlock * kTileBlock; };
          Half* const tile = packed + ((index * taps_ + tap) * 2 + i) * kTileNumbers;
          back ? pack_weight_back(at_tap(first), at_tap(second), tile) : pack_weight(at_tap(first), at_tap(second), tile);
        }
      }
    });
  }

  void multiply(const TileMap& from, const TileMap& to, const Buffer& weight, const std::vector<int32_t>& reach, const TileFinish& finish) {
    const Half* const packed = scratch<Half>(packed_);
    const Half* const weights = reinterpret_cast<const Half*>(weight.data());
    const int64_t height = to.plane / to.width, steps = groups_ * to.pairs;
    const bool near = static_cast<int64_t>(weight.bytes()) <= kNearBytes;
    parallel_for(threads(), height * steps, [&](int64_t index) {
      const int64_t row = near ? index / steps : index % height, at = near ? index % steps : index / height;
      const int64_t group = at / to.pairs, block = at % to.pairs * 2;
      const TileProduct product{.rows = rows_,
                                .from = packed + group * row_numbers(from),
                                .positions = from.plane,
                                .pairs = from.pairs,
                                .weight = weights + at * from.pairs * taps_ * 2 * kTileNumbers,
                                .taps = taps_,
                                .reach = reach.data()};
      TileFinish mine = finish;
      mine.to = to.block_of(finish.to, group, block);
      if (finish.bias != nullptr) mine.bias = finish.bias + (group * to.blocks + block) * kTileBlock;
      mine.second = block + 1 < to.blocks;
      const TileScope scope(rows_, TileScope::Use::kRows);
      multiply_tiles(product, {row * to.width, (row + 1) * to.width}, mine);
    });
  }

  void sum_weights(float* gradient, bool adds) {
    const int64_t step_in = in_.plane * rows_.deep_numbers(), step_out = out_.plane * rows_.deep_numbers();
    parallel_for(threads(), groups_ * out_.pairs * in_.pairs, [&](int64_t index) {
      const int64_t input = index % in_.pairs * 2, output = index / in_.pairs % out_.pairs * 2, group = index / in_.pairs / out_.pairs;
      TileSums sums{.rows = rows_, .taps = taps_, .reach = reach_.forward.data()};
      for (int64_t i = 0; i < 2; ++i) {
        if (input + i < in_.blocks) sums.left[i] = scratch<Half>(left_) + (group * in_.blocks + input + i) * step_in;
        if (output + i < out_.blocks) sums.right[i] = scratch<Half>(right_) + (group * out_.blocks + output + i) * step_out;
        for (int64_t j = 0; j < 2; ++j) sums.to[i][j] = weight_of(gradient, group, output + j, input + i);
      }
      const TileScope scope(rows_, TileScope::Use::kDepth);
      for (int64_t begin = 0; begin < out_.plane; begin += kSummedPositions)
        sum_tiles(sums, {begin, std::min(out_.plane, begin + kSummedPositions)}, adds || begin > 0);
    });
  }

  // The bias is added in fp32, and so is its gradient.
  void sum_errors(const float* error, float* gradient, bool adds) const {
    parallel_for(threads(), groups_ * out_.blocks, [&](int64_t block) {
      float* const sums = gradient + block * kTileBlock;
      if (!adds) std::fill_n(sums, kTileBlock, 0.0f);
      for (int64_t sample = 0; sample < rows_.samples; ++sample)
        add_rows(sums, error + sample * out_.steps.sample + block * out_.steps.block, out_.plane, out_.steps.position, kTileBlock);
    });
  }

  TileRows rows_;
  int64_t groups_, taps_;
  TileMap in_, out_;
  TileReach reach_;
  Geometry geometry_;
  MemoryDesc weight_desc_;
  Buffer forward_weight_, back_weight_;
  bool forward_stale_ = true, back_stale_ = true;
  size_t packed_ = 0, left_ = 0, right_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_tile_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation) {
  if (spec.micro_batch < kFewestSamples || operation.kernel_h * operation.kernel_w > kMostTaps) return nullptr;
  if (!has_tile_blocks(spec.inputs[0], operation.groups) || !has_tile_blocks(spec.output, operation.groups)) return nullptr;
  return std::make_unique<TileConvolution>(engine, spec, operation);
}

#else

std::unique_ptr<Kernel> make_tile_convolution(const SharedEngine&, const KernelSpec&, const Conv2d&) { return nullptr; }

#endif

}  // namespace millrace::cpu
