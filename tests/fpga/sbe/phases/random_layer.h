// Random layers, runs and inputs in fixed point for the tests of the engine of blocked columns.
#pragma once

#include <algorithm>
#include <vector>

#include "fpga/recurrence/arithmetic/fixed_recurrent.h"
#include "tests/fpga/sbe/random_engines.h"

namespace millrace::testing_support {

inline std::vector<int16_t> random_elements(Dice& dice, int64_t count, int64_t most) {
  std::vector<int16_t> values(static_cast<size_t>(count));
  for (int16_t& value : values) value = static_cast<int16_t>(dice.from_to(-most, most));
  return values;
}

inline FixedRecurrent random_layer(Dice& dice, CellKind cell, int64_t inputs, int64_t hidden, int64_t projection = 0) {
  FixedRecurrent layer{.cell = cell,
                       .inputs = inputs,
                       .hidden = hidden,
                       .projection = projection,
                       .formats = {.hidden = static_cast<int>(cell == CellKind::kVanillaRelu ? dice.from_to(9, 13) : dice.from_to(12, 15))},
                       .forms = {dice.one_of({SigmoidForm::kPlan, SigmoidForm::kPlan, SigmoidForm::kTable, SigmoidForm::kHardFifth,
                                              SigmoidForm::kHardSixth}),
                                 dice.one_of({TanhForm::kPlan, TanhForm::kPlan, TanhForm::kTable})},
                       .input_weight = {},
                       .hidden_weight = {},
                       .bias = {},
                       .hidden_bias = {},
                       .projection_weight = {}};
  layer.input_weight = random_elements(dice, layer.rows() * inputs, 3000);
  layer.hidden_weight = random_elements(dice, layer.rows() * layer.features(), 3000);
  layer.projection_weight = random_elements(dice, projection * hidden, 12000);
  for (int64_t row = 0; row < layer.rows(); ++row) layer.bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 27), 1 << 27)));
  if (cell == CellKind::kGru)
    for (int64_t unit = 0; unit < hidden; ++unit) layer.hidden_bias.push_back(static_cast<int32_t>(dice.from_to(-(1 << 26), 1 << 26)));
  return layer;
}

inline CellKind cell_of(Dice& dice, int64_t gates) {
  return gates == 4 ? CellKind::kLstm : gates == 3 ? CellKind::kGru : dice.one_of({CellKind::kVanillaRelu, CellKind::kVanillaTanh});
}

inline RecurrentState random_state(Dice& dice, const FixedRecurrent& layer, int64_t streams) {
  RecurrentState state = zero_state(layer, streams);
  for (int16_t& h : state.hidden) h = static_cast<int16_t>(dice.from_to(-(1 << layer.formats.hidden) + 1, (1 << layer.formats.hidden) - 1));
  for (int32_t& c : state.cell) c = static_cast<int32_t>(dice.from_to(-(12 << kCellFraction), 12 << kCellFraction));
  return state;
}

}  // namespace millrace::testing_support
