#include "fpga/xrt/protocol/recurrence_block.h"

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace::xrt {

namespace {

constexpr int64_t kMostExtent = 1 << 20;
constexpr int64_t kMostElements = int64_t{1} << 32;

void expect(const char* name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    fail(ErrorCode::kMalformed, "the block of a recurrent layer has {} {}; it holds {} to {}", value, name, least, most);
}

}  // namespace

RecurrenceBlock block_of(const FixedRecurrent& layer, const RecurrentRun& run) {
  return {.cell = static_cast<uint32_t>(layer.cell),
          .sigmoid = static_cast<uint32_t>(layer.forms.sigmoid),
          .tanh = static_cast<uint32_t>(layer.forms.tanh),
          .sums_arrive = run.sums.empty() ? 0u : 1u,
          .input_bits = layer.formats.input,
          .weight_bits = layer.formats.weight,
          .hidden_bits = layer.formats.hidden,
          .projection_bits = layer.formats.projection,
          .inputs = layer.inputs,
          .hidden = layer.hidden,
          .projection = layer.projection,
          .streams = run.streams,
          .steps = run.steps};
}

FixedRecurrent layer_of(const RecurrenceBlock& block) {
  expect("as its cell", block.cell, 0, static_cast<int64_t>(CellKind::kVanillaTanh));
  expect("as its sigmoid", block.sigmoid, 0, static_cast<int64_t>(SigmoidForm::kHardSixth));
  expect("as its tangent", block.tanh, 0, static_cast<int64_t>(TanhForm::kTable));
  expect("as whether sums arrive", block.sums_arrive, 0, 1);
  expect("inputs", block.inputs, 0, kMostExtent);
  expect("hidden units", block.hidden, 1, kMostExtent);
  expect("projected features", block.projection, 0, kMostExtent);
  expect("streams", block.streams, 1, kMostExtent);
  expect("steps", block.steps, 1, kMostExtent);
  FixedRecurrent layer;
  layer.cell = static_cast<CellKind>(block.cell);
  layer.inputs = block.inputs;
  layer.hidden = block.hidden;
  layer.projection = block.projection;
  layer.formats = {block.input_bits, block.weight_bits, block.hidden_bits, block.projection_bits};
  layer.forms = {static_cast<SigmoidForm>(block.sigmoid), static_cast<TanhForm>(block.tanh)};
  check(layer.formats, layer.cell);
  // Each at most 2^20, so that no product of two overflows.
  expect("weights", layer.rows() * (layer.inputs + layer.features()), 1, kMostElements);
  expect("vectors", block.streams * block.steps, 1, kMostElements);
  expect("inputs of all vectors", block.streams * block.steps * (layer.inputs + layer.features()), 1, kMostElements);
  expect("cells", block.streams * layer.hidden, 1, kMostElements);
  if (block.sums_arrive != 0) expect("sums", block.streams * block.steps * layer.rows(), 1, kMostElements);
  return layer;
}

RecurrenceSizes sizes_of(const FixedRecurrent& layer, const RecurrenceBlock& block) {
  const auto product = [](int64_t one, int64_t other) { return to_size(one * other); };
  return {.x = product(block.streams * block.steps, layer.inputs),
          .state = product(block.streams, layer.features()),
          .cells = layer.cell == CellKind::kLstm ? product(block.streams, layer.hidden) : 0,
          .input_weights = product(layer.rows(), layer.inputs),
          .hidden_weights = product(layer.rows(), layer.features()),
          .projection_weights = product(layer.projection, layer.hidden),
          .biases = to_size(layer.rows()),
          .hidden_biases = layer.cell == CellKind::kGru ? to_size(layer.hidden) : 0,
          .sums = block.sums_arrive != 0 ? product(block.streams * block.steps, layer.rows()) : 0,
          .outputs = product(block.streams * block.steps, layer.features())};
}

}  // namespace millrace::xrt
