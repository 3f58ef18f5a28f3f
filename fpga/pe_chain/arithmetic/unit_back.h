// One hidden unit's step back in fixed point: from the error of its state to those of its gates' sums, as hardware does it to the bit.
//
//   const UnitRecord kept{...};                                        // what the step forward wrote down
//   const UnitErrors now = unit_back(layer.cell, layer.forms, formats, kept, dh, carried, counters);
//   now.gates;                                                         // d of each gate's sum; gru: r, z, and n on the side of x
//
// The RECORD of a step forward holds a unit's sums as they were rounded, sixteen bits each, from which gates come again by the same
// functions: lstm i f g o and c as tanh took it (twelve fraction bits), gru r z, n's two sums and the h before, vanilla its one sum.
// ERRORS have sixteen bits. Slopes come from results: y (1 - y), 1 - y y, a hard sigmoid's own slope between its bounds; slopes and
// what multiplies them have fifteen fraction bits (twelve where a cell or a sum is a factor) and are rounded once each:
//   lstm     dc' = dh [o (1 - t t)] + dc;  do = dh [t s(o)], di = dc' [g s(i)], df = dc' [c s(f)], dg = dc' [i s(g)];  dc = dc' f
//   gru      dn = dh [(1 - z) (1 - n n)], dz = dh [(h - n) s(z)], dr = dn [q s(r)], du = dn r;  carried dh z
//   vanilla  dh (1 - y y), or dh where y > 0
// What is in brackets is rounded by itself, and so is each result: to nearest, ties to even.
#pragma once

#include <array>
#include <cstdint>

#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

namespace millrace {

struct UnitRecord {
  std::array<int16_t, 4> sums = {};  // as unit_step() rounds them; gru: r, z, W x of n, U h of n
  int16_t cell = 0;                  // lstm: c of this step, as tanh took it
  int16_t before = 0;                // lstm: c of the step before, likewise; gru: h of the step before
};
// Elements of a record, of a step; `before` of lstm is the step before's `cell`.
int64_t record_words(CellKind cell);

struct UnitErrors {
  std::array<int16_t, 4> gates = {};  // of the sums, as many as gates
  int16_t candidate = 0;              // gru: of U h of n; gates[2] is that of W x
  int16_t carried = 0;                // lstm dc, gru's direct part of dh: for the step before
};

// The error that the recurrent product takes of a gate: gru's n has two.
inline int16_t recurrent_error(CellKind cell, const UnitErrors& errors, size_t gate) {
  return cell == CellKind::kGru && gate == 2 ? errors.candidate : errors.gates[gate];
}

int32_t sigmoid_slope(SigmoidForm form, int32_t y);
int32_t tanh_slope(int32_t y);

UnitErrors unit_back(CellKind cell, const GateForms& forms, const CellFormats& formats, const UnitRecord& record, int16_t error,
                     int16_t carried, ArithmeticCounters& counters);

}  // namespace millrace
