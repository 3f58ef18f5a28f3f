// One direction of a recurrent layer in fixed point: its parameters, its state, and the plain order of its products, which every
// engine's numbers must equal to the bit.
//
//   const FixedRecurrent layer = fixed_recurrent(cell, inputs, parameters, formats, forms, counters.sums);
//   RecurrentState state = zero_state(layer, /*streams=*/4);
//   const std::vector<int16_t> h = direct_forward(layer, {.streams = 4, .steps = 16}, x, state, counters);
//
// Rows lie as an array of multipliers has them: all gates of a unit side by side, in PyTorch's order (lstm i f g o, gru r z n), so that
// row = unit * gates + gate. Biases of input and state are added and rounded once, to the accumulator's 32 bits; of a GRU's n the
// state's bias stays apart, for the reset multiplies it.
// Behind a stream's last step h and c stand still and the output is 0. The state is read and written: runs one after the other give the
// same bits as one long run, which is what chunks of time and stateful layers are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/operation/recurrent.h"
#include "fpga/recurrence/arithmetic/cell_arithmetic.h"

namespace millrace {

struct FixedRecurrent {
  CellKind cell = CellKind::kLstm;
  int64_t inputs = 0;  // may be 0
  int64_t hidden = 0;
  int64_t projection = 0;  // of lstm; 0: none
  CellFormats formats;
  GateForms forms;
  std::vector<int16_t> input_weight;       // [row][input]
  std::vector<int16_t> hidden_weight;      // [row][feature]
  std::vector<int32_t> bias;               // [row]
  std::vector<int32_t> hidden_bias;        // [unit], of gru's n; else empty
  std::vector<int16_t> projection_weight;  // [feature][unit]

  int64_t gates() const { return gates_of(cell); }
  int64_t rows() const { return gates() * hidden; }
  int64_t features() const { return projection > 0 ? projection : hidden; }
  // Of a projected sum, from its units of fifteen fraction bits.
  int projection_shift() const { return formats.projection + kGateFraction - formats.hidden; }
};

// Parameters as a model has them, rows gate by gate; `biases` are those of input and state. What does not fit is counted.
struct RealParameters {
  std::span<const float> input_weight, hidden_weight, input_bias, hidden_bias, projection;
};
FixedRecurrent fixed_recurrent(const Recurrent& cell, int64_t inputs, const RealParameters& parameters, const CellFormats& formats,
                               const GateForms& forms, ArithmeticCounters& counters);

struct RecurrentState {
  std::vector<int16_t> hidden;  // [stream][feature]
  std::vector<int32_t> cell;    // [stream][unit], of lstm
  bool operator==(const RecurrentState&) const = default;
};
RecurrentState zero_state(const FixedRecurrent& layer, int64_t streams);

struct RecurrentRun {
  int64_t streams = 1;
  int64_t steps = 1;             // of this run
  int64_t first_step = 0;        // of a longer sequence
  std::vector<int64_t> lengths;  // of the sequences; empty: none ends
  // x W as accumulators, made elsewhere: [stream][step][row]; empty: none. Borrowed.
  std::span<const int32_t> sums = {};

  // Steps of this run that stream `stream` has.
  int64_t valid_steps(int64_t stream) const;
};

// What the way back needs of a run: [stream][step], and in it what is said. Steps behind a stream's last one are not written.
struct RecurrentTrace {
  std::vector<int16_t> sums;   // [unit][gate], of gru one more: U h' + b; twelve fraction bits, of vanilla_relu as h has
  std::vector<int32_t> cells;  // [unit], of lstm
  std::vector<int16_t> units;  // [unit], of a layer that projects: what it projects
};

// x is [stream][step][input], the result [stream][step][feature].
std::vector<int16_t> direct_forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                                    RecurrentCounters& counters, RecurrentTrace* trace = nullptr);

// What a unit's sums become, whatever made them: `sums` are those of its gates, biases included, `hidden_sum` is gru's U h' + b. Writes
// the unit's cell; gives the output, of a layer that projects the element that it projects.
int16_t unit_step(const FixedRecurrent& layer, std::span<const int64_t> sums, int64_t hidden_sum, int32_t* cell, int16_t hidden,
                  RecurrentCounters& counters);

}  // namespace millrace
