// Times one case with our layers and with every algorithm of cuDNN, and compares their outputs.
//
//   const Outcome outcome = measure(*gpu, cudnn.get(), one, {.runs = 101});
//
// Times are medians over single runs between events on the machine's stream, after warm-up runs; inputs and weights are
// random and the same for all. Correct means: outputs differ from cuDNN's standard algorithm by no more than the tolerance
// of the format; without cuDNN nothing is compared and `compared` is false.
#pragma once

#include <string>
#include <vector>

#include "gpu/rnn/bench/grid.h"
#include "gpu/rnn/cuda/cudnn_peer.h"
#include "gpu/rnn/selection.h"

namespace millrace::rnn {

struct Effort {
  int runs = 101;
  int layouts = 5;  // of the model's first, that are timed before one is chosen
  SelectionFile* file = nullptr;
  Gpu constants = titan_v();  // of the model
};

struct Timed {
  std::string what;         // "ours" or cuDNN's algorithm
  double microseconds = 0;  // of all layers
  double difference = 0;    // from the standard algorithm's output
  std::string refusal;      // why there is no time
};

struct Outcome {
  Case one;
  std::string layout;  // of the forward kernel, or why single steps ran
  Timed ours;
  std::vector<Timed> peers;
  bool compared = false;
  bool correct = false;
  // Best peer's time by ours; 0 without a peer.
  double ratio = 0;
};

Outcome measure(CudaMachine& gpu, CudnnPeer* cudnn, const Case& one, const Effort& effort);

// Largest difference that counts as correct.
double tolerance_of(Precision precision);

}  // namespace millrace::rnn
