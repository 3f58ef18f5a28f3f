// An LSTM's unit finished by four lanes, a gate each, in place of one thread that takes the gates one after the other: a quarter of the
// sums and activations stands between the products and the new state.
//
//   LstmByGates<float> cell{};
//   if (owns) cell.prefetch(at, gate);           // gate: the thread's number modulo four
//   cell.finish(owns, at, gate, sum);            // by all lanes of a warp together, also those that own nothing
//
// The forget gate's lane keeps the cell state and publishes: it alone reads what it wrote in the step before, so that nothing needs an
// order. Of other recurrences a thread finishes a unit by itself (cells.h): UnitLanes says which.
#pragma once

#include "gpu/rnn/kernels/cells.h"

namespace millrace::rnn {

template <class S>
struct LstmByGates {
  static constexpr int kForget = 1, kCandidate = 2;

  MILLRACE_DEVICE void prefetch(const Standing& at, int gate) {
    input = at.side.gates[at.gate_at(at.time(0), 4, gate)];
    to = static_cast<S*>(at.side.output) + at.output_at(at.time(0));
    if (gate == kForget) cell = at.earlier_cell();
  }
  // `sum`: the gate's, whatever it is where nothing is owned.
  MILLRACE_DEVICE void finish(bool owns, const Standing& at, int gate, float sum) {
    const float total = input + sum;
    const float mine = device::sigmoid_or_tangent(total, gate == kCandidate);
    const float across = device::shuffle_xor(mine, 2);              // i has g's now, f has o's
    const float candidate = device::shuffle_xor(mine * across, 1);  // f has i times g now
    // By all lanes, for a branch would take longer.
    const float fresh = mine * cell + candidate;
    const float state = across * device::hyperbolic_tangent(fresh);
    if (!owns) return;
    if (gate == kForget) publish(to, state);
    const int time = at.time(0);
    if (gate == kForget) at.side.cell[at.parameters.cell_steps != 0 ? at.unit_at(time) : at.still_at()] = fresh;
    if (at.parameters.training != 0) at.side.gates[at.gate_at(time, 4, gate)] = mine;
  }

  S* to;
  float input, cell;
};

// How many lanes finish a unit, and what they are.
template <class Cell>
struct UnitLanes {
  static constexpr int kCount = 1;
  using Type = Cell;
};
template <class S>
struct UnitLanes<LstmForward<S>> {
  static constexpr int kCount = 4;
  using Type = LstmByGates<S>;
};

}  // namespace millrace::rnn
