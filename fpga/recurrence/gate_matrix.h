// A recurrent layer as hardware sees it: one direction's matrix of gates, a row per gate and hidden unit, a column per input and per
// hidden unit.
//
//   const GateMatrix lstm{.inputs = 1792, .hidden = 256, .gates = 4};
//   lstm.rows();                              // 1,024
//   lstm.row_of(/*unit=*/2, /*gate=*/1);      // 9: the gates of a unit lie side by side
//
// Rows are interlaced by unit, so that all gates of a unit leave an array of multipliers together. Columns of x come first, those of
// h last: the products with the next step's x hide the way from the last product to h.
#pragma once

#include <cstdint>

namespace millrace {

struct GateMatrix {
  int64_t inputs = 0;
  int64_t hidden = 0;
  int64_t gates = 4;       // of a unit: LSTM 4, GRU 3, vanilla 1
  int64_t projection = 0;  // features that a second matrix makes of the units; 0: h is the units themselves
  bool operator==(const GateMatrix&) const = default;

  int64_t rows() const { return gates * hidden; }
  int64_t features() const { return projection > 0 ? projection : hidden; }  // of h
  int64_t columns() const { return inputs + features(); }
  int64_t weights() const { return rows() * columns(); }  // and products of a step; biases apart
  int64_t row_of(int64_t unit, int64_t gate) const { return unit * gates + gate; }
};

}  // namespace millrace
