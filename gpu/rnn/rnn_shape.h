// What a recurrent layer is, and its parameters, for whoever runs it: our kernels (layer.h) or a library's (library.h).
//
//   const RnnShape shape{.recurrence = Recurrence::kGru, .inputs = 64, .hidden = 256, .batch = 8, .steps = 100};
//   require_sensible(shape);
//
// Order of gates: LSTM i, f, g, o; GRU r, z, n. Values only.
#pragma once

#include <vector>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

struct RnnShape {
  Recurrence recurrence = Recurrence::kLstm;
  int inputs = 0;
  int hidden = 0;
  int projection = 0;  // 0: none
  bool bidirectional = false;
  int batch = 0;
  int steps = 0;
  Precision precision = Precision::kFloat;
  bool training = false;

  int sides() const { return bidirectional ? 2 : 1; }
  int gates() const { return gates_of(recurrence); }
  int state() const { return projection > 0 ? projection : hidden; }  // what comes out of a side, per sample
  int outputs() const { return sides() * state(); }
};
// Throws RnnError(kUnsupportedSize) when the numbers make no sense together.
void require_sensible(const RnnShape& shape);

// One side's parameters or their gradients, on the host.
struct Weights {
  std::vector<float> input;           // [gates][hidden][inputs]
  std::vector<float> recurrent;       // [gates][hidden][state]
  std::vector<float> bias;            // [gates][hidden]
  std::vector<float> candidate_bias;  // [hidden], GRU of cuDNN's form alone
  std::vector<float> projection;      // [projection][hidden]
};

}  // namespace millrace::rnn
