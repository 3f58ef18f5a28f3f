// Times one case with our kernels, with every algorithm of cuDNN, and with whichever of them was chosen to run such layers;
// compares outputs and gradients.
//
//   const Outcome outcome = measure(*gpu, one, {.runs = 101});
//
// Times are medians over single runs between events on the machine's stream, after warm-up runs; inputs, weights, first
// states and outer gradients are random, the same for all, and held exactly by the case's format. Correct is what
// comparison.h says, against cuDNN's standard algorithm; without cuDNN nothing is compared and `compared` is false.
#pragma once

#include <string>
#include <vector>

#include "gpu/rnn/bench/comparison.h"
#include "gpu/rnn/bench/grid.h"
#include "gpu/rnn/cuda/cuda_machine.h"
#include "gpu/rnn/selection.h"

namespace millrace::rnn {

struct Effort {
  int runs = 101;
  int layouts = 5;  // of the model's first, that are timed before one is chosen
  SelectionFile* file = nullptr;
  Gpu constants = titan_v();  // of the model
};

struct Timed {
  std::string what;         // "ours", cuDNN's algorithm, or "chosen"
  double microseconds = 0;  // of all layers
  Comparison comparison;    // with the standard algorithm
  std::string refusal;      // why there is no time
};

struct Outcome {
  Case one;
  std::string layout;  // of the forward kernel, or why single steps ran
  Timed ours;
  std::vector<Timed> peers;
  Runner runner;  // who was chosen, and why
  Timed chosen;   // a layer as that runner makes it
  bool compared = false;
  bool correct = false;  // ours and the chosen
  // Best peer's time by ours and by the chosen's; 0 without a peer.
  double ratio = 0;
  double chosen_ratio = 0;
};

Outcome measure(CudaMachine& gpu, const Case& one, const Effort& effort);

}  // namespace millrace::rnn
