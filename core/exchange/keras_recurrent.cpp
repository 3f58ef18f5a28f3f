// LSTM, GRU, SimpleRNN, alone or in both directions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/index.h"
#include "core/exchange/keras_layers.h"

namespace millrace {
namespace {

struct CellFacts {
  CellKind cell;
  int64_t gates;
  std::vector<int> order;  // ours, block by block, out of Keras's
  const char* transform;
};

CellFacts facts_of(const KerasLayer& cell) {
  const std::string activation = cell.word("activation", "tanh");
  const std::string& type = cell.class_name();
  if (type == "SimpleRNN") {
    if (activation != "tanh" && activation != "relu") cell.refuse("activation \"{}\", tanh and relu are computed", activation);
    return {activation == "tanh" ? CellKind::kVanillaTanh : CellKind::kVanillaRelu, 1, {0}, "transposed"};
  }
  if (activation != "tanh") cell.refuse("activation \"{}\", only tanh is computed inside it", activation);
  const std::string gate = cell.word("recurrent_activation", "sigmoid");
  if (gate != "sigmoid" && gate != "hard_sigmoid")
    cell.refuse("recurrent_activation \"{}\", only sigmoid and hard_sigmoid are computed inside it", gate);
  if (type == "LSTM") return {CellKind::kLstm, 4, {0, 1, 2, 3}, "transposed"};  // i f c o, as ours
  return {CellKind::kGru, 3, {1, 0, 2}, "transposed; gates z r h to r z n"};
}

void refuse_unusual(const KerasLayer& cell) {
  for (const char* const setting : {"go_backwards", "stateful", "return_state", "time_major", "zero_output_for_mask"})
    if (cell.flag(setting, false)) cell.refuse("{}, which has no counterpart here", setting);
}

void set_direction(const KerasLayer& layer, const KerasLayer& cell, const CellFacts& facts, std::span<const KerasTensor> tensors,
                   const NetworkValue& y, const std::string& suffix, int64_t features, bool reset_after, KerasContext& context) {
  const int64_t units = cell.whole("units", 0), rows = facts.gates * units;
  const auto expect = [&](const KerasTensor& tensor, const std::vector<int64_t>& wanted) {
    if (tensor.array.dimensions != wanted)
      fail(ErrorCode::kMismatch, "{}: {} is [{}], [{}] was expected; the weights belong to another model", layer.who(), tensor.source,
           fmt::join(tensor.array.dimensions, ", "), fmt::join(wanted, ", "));
  };
  expect(tensors[0], {features, rows});
  expect(tensors[1], {units, rows});
  const auto matrix = [&](const KerasTensor& tensor, const char* name, int64_t columns) {
    context.net.set_weight(y.layer, name + suffix, {rows, columns},
                           reorder_blocks(transposed(tensor.array.values, columns, rows), columns, facts.order), tensor.source,
                           facts.transform);
  };
  matrix(tensors[0], "weight_ih", features);
  matrix(tensors[1], "weight_hh", units);
  std::vector<float> input(to_size(rows)), recurrent(input);
  std::string source = "none", recurrent_source = "none";
  if (tensors.size() > 2) {
    const std::vector<float>& stored = tensors[2].array.values;
    expect(tensors[2], reset_after ? std::vector<int64_t>{2, rows} : std::vector<int64_t>{rows});
    std::copy_n(stored.begin(), rows, input.begin());
    if (reset_after) std::copy_n(stored.begin() + static_cast<ptrdiff_t>(rows), rows, recurrent.begin());
    source = tensors[2].source;
    if (reset_after) recurrent_source = source;
  }
  const char* const transform = facts.cell == CellKind::kGru ? "gates z r h to r z n" : "as it is";
  context.net.set_weight(y.layer, "bias_ih" + suffix, {rows}, reorder_blocks(input, 1, facts.order), source, transform);
  context.net.set_weight(y.layer, "bias_hh" + suffix, {rows}, reorder_blocks(recurrent, 1, facts.order), recurrent_source,
                         recurrent_source == "none" ? "0 throughout" : transform);
}

}  // namespace

bool is_keras_recurrent(const std::string& class_name) { return class_name == "LSTM" || class_name == "GRU" || class_name == "SimpleRNN"; }

KerasValue convert_keras_recurrent(const KerasLayer& layer, const KerasLayer& cell, bool bidirectional, const KerasValue& x,
                                   KerasContext& context) {
  if (!is_keras_recurrent(cell.class_name()))
    layer.refuse("a {} in both directions, only LSTM, GRU and SimpleRNN are read", cell.class_name());
  const std::string merge = bidirectional ? layer.word("merge_mode", "none") : "concat";
  if (merge != "concat") layer.refuse("merge_mode \"{}\", only concat is computed", merge);
  if (x.flattened || x.value.shape.width != 1) layer.refuse("its input {} is no row of steps", text_of(x.value.shape));
  refuse_unusual(cell);
  const CellFacts facts = facts_of(cell);
  const bool all_steps = cell.flag("return_sequences", false), bias = cell.flag("use_bias", true);
  if (bidirectional && !all_steps)
    layer.refuse(
        "the last output of both directions: the backward one's stands at the first step, which has no counterpart here "
        "(return_sequences)");
  if ((cell.number("dropout", 0) != 0 || cell.number("recurrent_dropout", 0) != 0) && !context.dropout_said) {
    context.net.note("dropout inside recurrent layers is left out: it is drawn in training alone, and nothing here draws it there");
    context.dropout_said = true;
  }
  const bool reset_after = cell.class_name() == "GRU" && cell.flag("reset_after", false);
  Recurrent operation{.cell = facts.cell, .hidden = cell.whole("units", 0), .bidirectional = bidirectional, .reset_after = reset_after};
  if (gates_of(facts.cell) > 1 && cell.word("recurrent_activation", "sigmoid") == "hard_sigmoid") {
    operation.gate_activation = GateActivation::kHardSigmoid;
    operation.gate_slope = context.version == 2 ? 0.2 : 1.0 / 6;  // Keras changed it
  }
  const NetworkValue y = context.net.add(layer.name(), operation, {x.value});
  const size_t each = bias ? 3 : 2;
  const std::vector<KerasTensor> tensors = keras_tensors(layer, bidirectional ? 2 * each : each, context);
  const std::span<const KerasTensor> all(tensors);
  set_direction(layer, cell, facts, all.first(each), y, "", x.value.shape.channels, reset_after, context);
  if (bidirectional) set_direction(layer, cell, facts, all.last(each), y, "_reverse", x.value.shape.channels, reset_after, context);
  if (all_steps) return {y, {}, false};
  return {context.net.add(layer.name() + ".last", LastStep{}, {y}), {}, false};
}

}  // namespace millrace
