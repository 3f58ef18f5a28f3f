#include "fpga/xrt/protocol/steps_block.h"

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace::xrt {

StepsBlock block_of(const StepsOfBoard& of, const RecurrentRun& run) {
  return {.layer = block_of(of.layer, run),
          .board_begin = of.board.begin,
          .board_end = of.board.end,
          .error_bits = of.error_fraction,
          .part = static_cast<int32_t>(of.part)};
}

FixedRecurrent layer_of(const StepsBlock& block) {
  FixedRecurrent layer = layer_of(block.layer);
  if (layer.inputs != 0)
    fail(ErrorCode::kMalformed, "the block of a layer's steps has {} inputs; what they give comes as sums", layer.inputs);
  if (block.board_begin < 0 || block.board_end <= block.board_begin || block.board_end > layer.hidden)
    fail(ErrorCode::kMalformed, "the block of a layer's steps has units [{}, {}) of {}", block.board_begin, block.board_end, layer.hidden);
  if (block.part < 0 || block.part > static_cast<int32_t>(StepPart::kFeatures))
    fail(ErrorCode::kMalformed, "the block of a layer's steps is part {} of a step; it holds 0 to {}", block.part,
         static_cast<int32_t>(StepPart::kFeatures));
  const bool whole = block.board_begin == 0 && block.board_end == layer.hidden;
  if (layer.projection > 0 && !whole && block.part == 0)
    fail(ErrorCode::kMalformed, "the block of a layer's steps has units [{}, {}) of {} that are projected, and both parts of a step",
         block.board_begin, block.board_end, layer.hidden);
  if (layer.projection == 0 && block.part != 0)
    fail(ErrorCode::kMalformed, "the block of a layer's steps is part {} of a step, and its units are not projected", block.part);
  if (!divides_features(layer.hidden, layer.features(), {block.board_begin, block.board_end}))
    fail(ErrorCode::kMalformed, "the block of a layer's steps has units [{}, {}) of {} and no whole number of their {} features",
         block.board_begin, block.board_end, layer.hidden, layer.features());
  if (block.error_bits < 0 || block.error_bits > kMostFractionBits)
    fail(ErrorCode::kMalformed, "the block of a layer's steps has errors of {} fraction bits; it holds 0 to {}", block.error_bits,
         kMostFractionBits);
  return layer;
}

StepsSizes sizes_of(const FixedRecurrent& layer, const StepsBlock& block) {
  const auto product = [](int64_t one, int64_t other) { return to_size(one * other); };
  const int64_t vectors = block.layer.streams * block.layer.steps;
  const auto part = static_cast<StepPart>(block.part);
  const size_t units_too = part == StepPart::kFeatures ? 0 : 1, features_too = part == StepPart::kUnits ? 0 : 1;
  return {.of_layer = sizes_of(layer, block.layer),
          .sums = units_too * product(vectors, layer.rows()),
          .units = layer.projection > 0 ? product(vectors, layer.hidden) : 0,
          .given_units = layer.projection > 0 && units_too == 0 ? product(vectors, layer.hidden) : 0,
          .records = units_too * product(vectors, layer.hidden) * kRecordElements,
          .taken = product(block.layer.streams, layer.rows()),
          .carried = product(block.layer.streams, layer.hidden),
          .candidates = layer.cell == CellKind::kGru ? product(vectors, layer.hidden) : 0,
          .features = layer.projection > 0 ? features_too * product(vectors, layer.features()) : 0};
}

}  // namespace millrace::xrt
