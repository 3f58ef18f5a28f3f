// Times one case with our kernels, with every algorithm of cuDNN, and with whichever of them was chosen to run such layers;
// compares outputs and gradients.
//
//   const Outcome outcome = measure(*gpu, one, {.runs = 101});
//
// Times are medians over single runs between events on the machine's stream, after warm-up runs; inputs, weights, first
// states and outer gradients are random, the same for all, and held exactly by the case's format. Correct is what
// comparison.h says, against cuDNN's standard algorithm; without cuDNN nothing is compared and `compared` is false.
#pragma once

#include "gpu/rnn/bench/outcome.h"
#include "gpu/rnn/cuda/cuda_machine.h"
#include "gpu/rnn/selection.h"

namespace millrace::rnn {

struct Effort {
  int runs = 101;
  int layouts = 5;  // of the model's first, that are timed before one is chosen
  SelectionFile* file = nullptr;
  Gpu constants = titan_v();  // of the model
};

// The recurrence alone is timed over so many steps.
inline constexpr int kFewSteps = 100;
inline constexpr int kManySteps = 1000;

Outcome measure(CudaMachine& gpu, const Case& one, const Effort& effort);

}  // namespace millrace::rnn
