// Inputs of a projection as they are dealt to the units of an engine of chained elements: input i to unit i mod units, which then has as
// many as the others, zero behind the last.
//
//   const DealtInputs deal{.inputs = 10, .units = 4};                  // unit 1 takes inputs 1, 5, 9; unit 2 takes 2, 6 and a zero
//   const std::vector<float> rows = deal.of(weights);                  // [row][input] as [row][unit][place]
//   rows.data() + deal.begin(row, unit)                                // deal.each() of them
//
// An engine's units take their inputs in the same cycle, out of one word of its state. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/index.h"
#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

struct DealtInputs {
  int64_t inputs = 0, units = 1;

  int64_t each() const { return divided_up(inputs, units); }
  int64_t begin(int64_t row, int64_t unit) const { return (row * units + unit) * each(); }

  template <typename T>
  std::vector<T> of(const std::vector<T>& rows) const {
    const int64_t count = inputs == 0 ? 0 : static_cast<int64_t>(rows.size()) / inputs;
    std::vector<T> dealt(to_size(count * units * each()));
    for (int64_t row = 0; row < count; ++row)
      for (int64_t input = 0; input < inputs; ++input)
        fast_item(dealt, begin(row, input % units) + input / units) = fast_item(rows, row * inputs + input);
    return dealt;
  }
};

}  // namespace millrace
