// The cases that millrace-bench-rnn measures.
//
//   for (const Case& one : grid(Extent::kFull)) ...
#pragma once

#include <string>
#include <vector>

#include "gpu/rnn/layer.h"

namespace millrace::rnn {

struct Case {
  std::string group;  // "grid", "persistent-rnns-figure-1", "char-rnn", "text-classification"
  RnnShape shape;     // training: forward and backward are timed together
  int layers = 1;     // of a network, one after the other; timed as the sum
};

enum class Extent {
  kQuick,  // a few cases, to see that everything works
  kFull,   // GRNN's Table 1 and more: hidden 64 to 2048, batch 1 to 32, LSTM and GRU, three formats
};

std::vector<Case> grid(Extent extent);
std::string name_of(const Case& one);

}  // namespace millrace::rnn
