// One hidden unit's step in fixed point: from its gates' sums to its state, as hardware does it to the bit.
//
//   const CellFormats formats{.input = 14, .weight = 13, .hidden = 15};
//   const int16_t z = cell_sum(accumulator, formats.sum_shift(CellKind::kLstm), counters.sums);
//   const LstmStep now = lstm_step({i, f, g, o}, c, formats, forms, counters);
//
// Inputs x, weights W and the state h have sixteen bits; so have the weights U of h, with so many fraction bits that both products
// meet in one ACCUMULATOR of 32 bits, which starts at the biases and wraps. A SUM z is the accumulator rounded to sixteen bits, twelve
// of fraction (of vanilla_relu: as h has). A GATE has fifteen fraction bits. A CELL has 32 bits, 24 of fraction: it reaches 128, where
// one of sixteen bits would saturate at 8.
//   lstm          c = sat32(round(f c' + i g)), h = sat16(round(o tanh(c to sixteen bits)))
//   gru           n = tanh(sat16(round(xn + r (U h' + b)))), h = sat16(round((1 - z) n + z h')); the reset comes after the product
//   vanilla       h = relu or tanh of the sum
// Each line has one rounding per result: to nearest, ties to even (fixed_point.h). Counters add up in any order.
#pragma once

#include <array>
#include <cstdint>

#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/recurrence/arithmetic/gate_function.h"

namespace millrace {

inline constexpr int kCellBits = 32, kCellFraction = 24;

struct CellFormats {  // fraction bits
  int input = 14;
  int weight = 13;
  int hidden = 15;      // 0 to 15
  int projection = 14;  // of the projection's weights
  bool operator==(const CellFormats&) const = default;

  int accumulator() const { return input + weight; }
  int hidden_weight() const { return accumulator() - hidden; }
  int sum(CellKind cell) const { return cell == CellKind::kVanillaRelu ? hidden : kSumFraction; }
  int sum_shift(CellKind cell) const { return accumulator() - sum(cell); }
};
// Fails with kUsage, naming the number, on formats that hardware cannot have: shifts are 0 to 31, fractions 0 to 30, that of h at most 15.
void check(const CellFormats& formats, CellKind cell);

struct RecurrentCounters {
  ArithmeticCounters sums;  // and the accumulators that overflowed
  ArithmeticCounters cells;
  ArithmeticCounters outputs;
  RecurrentCounters& operator+=(const RecurrentCounters& other) {
    sums += other.sums;
    cells += other.cells;
    outputs += other.outputs;
    return *this;
  }
};

// `exact` is what the accumulator would hold if it did not wrap; what it lost is counted.
inline int16_t cell_sum(int64_t exact, int shift, ArithmeticCounters& counters) {
  const int32_t accumulator = wrapped(exact);
  if (accumulator != exact) ++counters.accumulator_overflows;
  return rounded_to_element(accumulator, shift, counters);
}

struct LstmStep {
  int32_t cell = 0;
  int16_t output = 0;
};
LstmStep lstm_step(const std::array<int16_t, 4>& sums, int32_t cell, const CellFormats& formats, const GateForms& forms,
                   RecurrentCounters& counters);  // i f g o

struct GruSums {
  int16_t reset = 0, update = 0;
  int16_t input = 0;   // of n: W x + b
  int16_t hidden = 0;  // of n: U h' + b
};
int16_t gru_step(const GruSums& sums, int16_t hidden, const CellFormats& formats, const GateForms& forms, RecurrentCounters& counters);

int16_t vanilla_step(CellKind cell, int16_t sum, const CellFormats& formats, const GateForms& forms, RecurrentCounters& counters);

}  // namespace millrace
