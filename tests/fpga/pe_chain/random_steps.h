// Random layers in fixed point for tests of the engine of chained elements.
#pragma once

#include <algorithm>

#include "fpga/pe_chain/arithmetic/fixed_steps.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace::testing_support {

// A layer that another device multiplies W x for, with any gate functions that its cell has.
inline FixedRecurrent random_steps(Dice& dice, CellKind cell, int64_t units, int64_t projection = 0) {
  FixedRecurrent layer = random_layer(dice, cell, 0, units, projection);
  layer.formats.hidden = static_cast<int>(cell == CellKind::kVanillaRelu ? dice.from_to(9, 13) : dice.from_to(12, 15));
  return layer;
}

inline FixedBackState random_back_state(Dice& dice, const FixedRecurrent& layer, int64_t streams) {
  return {random_elements(dice, streams * layer.rows(), 8000), random_elements(dice, streams * layer.hidden, 8000)};
}

}  // namespace millrace::testing_support
