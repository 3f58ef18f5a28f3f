// Internal to gpu/rnn: what a layer owns per side on its machine, for the two halves of RnnLayer's code. Pointers that a layer
// does not need stay null.
#pragma once

#include "gpu/rnn/layer.h"

namespace millrace::rnn {

inline const void* offset(const void* from, long long elements, Precision precision) {
  return static_cast<const unsigned char*>(from) + elements * bytes_of(precision);
}

struct RnnLayer::SideMemory {
  void* input_weights = nullptr;      // in the layer's format
  void* recurrent_weights = nullptr;  // folded with the projection
  float* plain_recurrent = nullptr;   // as given, when there is a projection
  float* projection = nullptr;
  float* bias = nullptr;
  float* candidate_bias = nullptr;
  float* gates = nullptr;
  float* cell = nullptr;
  float* candidate = nullptr;
  void* reset_state = nullptr;
  void* first_state = nullptr;
  float* first_cell = nullptr;
  void* gate_gradient = nullptr;
  void* input_gradient = nullptr;
  float* carry = nullptr;
  float* partial = nullptr;
  float* update_gate = nullptr;
  unsigned* flags = nullptr;
  long long flag_count = 0;
  float* input_weights_gradient = nullptr;
  float* recurrent_gradient = nullptr;
  float* bias_gradient = nullptr;
  float* recurrent_bias_gradient = nullptr;
  float* projection_gradient = nullptr;
  float* state_gradient = nullptr;  // of the first state
  float* all_gradient = nullptr;    // of the projected output, the recurrence's part
};

}  // namespace millrace::rnn
