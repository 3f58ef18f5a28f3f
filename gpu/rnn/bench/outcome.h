// What measuring one case yields: plain values, apart from the GPU that they are measured on.
#pragma once

#include <string>
#include <vector>

#include "gpu/rnn/bench/comparison.h"
#include "gpu/rnn/bench/grid.h"
#include "gpu/rnn/runner.h"

namespace millrace::rnn {

struct Timed {
  std::string what;         // "ours", cuDNN's algorithm, or "chosen"
  double microseconds = 0;  // of all layers
  Comparison comparison;    // with the standard algorithm
  std::string refusal;      // why there is no time
};

// The recurrence alone: one launch, without the input's product, the fills and the gradients' products.
struct RecurrenceTimes {
  std::vector<int> steps;
  std::vector<double> forward, backward;  // microseconds, per entry of steps; backward when training
  std::string refusal;
};
// Microseconds per step: between the fewest and the most steps, so that the launch and the load of the weights drop out.
double slope_of(const std::vector<int>& steps, const std::vector<double>& microseconds);

struct Outcome {
  Case one;
  std::string layout;                    // of the forward kernel, or why single steps ran
  std::vector<std::string> passed_over;  // layouts that could not be measured, and why
  Timed ours;
  RecurrenceTimes recurrence;
  std::vector<Timed> peers;
  Runner runner;  // who was chosen, and why
  Timed chosen;   // a layer as that runner makes it
  bool compared = false;
  bool correct = false;  // ours and the chosen
  // Best peer's time by ours and by the chosen's; 0 without a peer.
  double ratio = 0;
  double chosen_ratio = 0;
};

}  // namespace millrace::rnn
