// FARNN's performance model: a GPU that multiplies inputs for all steps at once, beside a board of chained elements that makes the
// recurrent products step by step, forward and back.
//
//   const FarnnMachine machine{.elements = 256, .load_bytes_per_second = 7.5e9, .pass_seconds = 5e-4, .forward_exposed = 204,
//                              .back_exposed = 0};
//   training_step_seconds({.cells = 1024, .inputs = 1024, .gates = 4}, machine);       // 0.199: five layers, 1,600 steps, one sample
//
// A layer and direction has seven parts: R, the steps, forward and back; A, one load of the recurrent weights (once forward, once back,
// transposed by the GPU); I, the input product on the GPU, forward or back; G, the weights' gradients; U, the update; X, what
// crosses the link in the steps. A load overlaps with the GPU's work and never with the steps of the layer before: the weights' memory
// is single. Gradients and updates take what time the GPU has left.
// Seconds are modelled. The paper prints ratios only. Pure functions.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>

namespace millrace {

struct FarnnMachine {
  int64_t elements = 256;  // of one of the units, which are as many as gates
  double load_bytes_per_second = 0;
  double pass_seconds = 0;                 // of a load, beside its bytes
  std::optional<int64_t> forward_exposed;  // cycles per step that nothing is fed; none: element by element
  std::optional<int64_t> back_exposed;
  double clock_hz = 400e6;
  int64_t most_parts = 2;
  double gpu_flops = 9.3e12 * 0.9;
  double gpu_bytes_per_second = 732e9;
  int64_t chunks = 16;  // in time, of the input products

  auto operator<=>(const FarnnMachine&) const = default;
};

struct FarnnNetwork {
  int64_t cells = 1024;
  int64_t inputs = 1024;
  int64_t gates = 4;  // LSTM 4, GRU 3, vanilla 1
  int64_t projection = 0;
  int64_t steps = 1600;
  int64_t batch = 1;
  int64_t layers = 5;
  int64_t directions = 1;

  int64_t fed_back() const { return projection > 0 ? projection : cells; }
  int64_t recurrent_weights() const { return gates * cells * fed_back() + projection * cells; }
  int64_t input_weights() const { return gates * cells * inputs; }
  int64_t passes() const { return layers * directions; }

  auto operator<=>(const FarnnNetwork&) const = default;
};

inline constexpr int64_t kActivationCycles = 204;  // paper 5.1.3: the longest, LSTM forward
inline constexpr int64_t kAdderCycles = 16;        // chosen: multiplier and adder behind the last element
inline constexpr int64_t kRelayCycles = 2;         // chosen
inline constexpr int64_t kPortChains = 16;         // paper 5.1.2: 512 bits by 32
inline constexpr double kGpuPeakFlops = 9.3e12;    // paper 4.1
inline constexpr double kGpuShare = 0.9;           // fitted
inline constexpr double kGpuDramShare = 0.85;      // projected
inline constexpr double kUpdateBytes = 20;         // chosen: of a parameter, SGD with momentum

int64_t step_cycles(const FarnnNetwork& network, const FarnnMachine& machine, bool back);

// Seconds of one layer and direction.
struct FarnnParts {
  double forward = 0, back = 0;  // R
  double load = 0;               // A
  double input = 0;              // I
  double gradient = 0;           // G
  double update = 0;             // U
  double link = 0;               // X, of forward or of back
  double on_board = 0;           // the input product on the board's elements instead, forward or back
  double input_load = 0;         // and one load of its weights
};
FarnnParts parts_of(const FarnnNetwork& network, const FarnnMachine& machine);

// Event by event: GPU, board, and what the GPU has put off.
double training_step_seconds(const FarnnNetwork& network, const FarnnMachine& machine);
// The same in one line, where the steps set the pace: R >= I + G + U of every layer.
double training_step_seconds_closed(const FarnnNetwork& network, const FarnnMachine& machine);
// One after the other; `with_link`: the steps' transfers too.
double no_overlap_seconds(const FarnnNetwork& network, const FarnnMachine& machine, bool with_link);
// The input products on the board as well.
double all_on_board_seconds(const FarnnNetwork& network, const FarnnMachine& machine);
// Every element busy at every cycle, the GPU in no time.
double array_bound_seconds(const FarnnNetwork& network, const FarnnMachine& machine);

// The GPU alone, `step_pair` seconds for one step forward and back.
double gpu_alone_seconds(const FarnnNetwork& network, const FarnnMachine& machine, double step_pair);
// The step pair with which it takes so many seconds.
double fitted_step_pair(const FarnnNetwork& network, const FarnnMachine& machine, double seconds);
// The step pair of a GPU that reads the recurrent weights from its memory at every step.
double roofline_step_pair(const FarnnNetwork& network, const FarnnMachine& machine);

}  // namespace millrace
