// What a persistent kernel is given: plain values and pointers, the same for host, GPU and emulator.
//
// Sequences lie as [step][sample][...]; a layer's gates as [gate][unit]: LSTM i, f, g, o; GRU r, z, n. Numbers of the
// layer's format (weights, states, gate gradients) are pointers to void; everything else is float. Times run forwards in
// memory; a reversed side walks them backwards. Owned by whoever launches; nothing here is freed.
#pragma once

#include "gpu/rnn/device/vocabulary.h"

namespace millrace::rnn {

// One direction of a layer.
struct Side {
  const void* weights = nullptr;               // recurrent, [gates][hidden][hidden]
  float* gates = nullptr;                      // [steps][batch][gates][hidden]: input's part in, activations out
  void* output = nullptr;                      // states, prefilled with the mark; strides in Parameters
  const void* first_state = nullptr;           // [batch][hidden]; none means zeros
  float* cell = nullptr;                       // LSTM, [steps or 1][batch][hidden]
  const float* first_cell = nullptr;           // [batch][hidden]; none means zeros
  const float* candidate_bias = nullptr;       // GRU: the recurrent bias of the candidate, [hidden]
  float* candidate = nullptr;                  // [steps][batch][hidden]; GRU: the candidate's recurrent sums, canonical: the candidate
  void* reset_state = nullptr;                 // canonical GRU: reset gate times state, [steps][batch][hidden], prefilled
  const float* output_gradient = nullptr;      // as output, in float
  const float* last_state_gradient = nullptr;  // [batch][hidden]; none means zeros
  void* gate_gradient = nullptr;               // [steps][batch][gates][hidden] at the recurrent sums, prefilled
  void* input_gradient = nullptr;              // GRU: the same at the input's sums (elsewhere they are one)
  float* carry = nullptr;                      // [batch][hidden]: LSTM the cell's gradient, GRU the state's direct one
  float* partial = nullptr;                    // one-exchange GRU: [2][unit tiles][batch][hidden] partial sums
  float* update_gate = nullptr;                // one-exchange GRU: [2][batch][hidden]
  unsigned* flags = nullptr;                   // one-exchange GRU: [sample tiles * unit tiles], zero at the start
  int reversed = 0;
};

struct Parameters {
  Side side[2];
  int hidden = 0;
  int batch = 0;
  int steps = 0;
  int output_stride = 0;  // from sample to sample
  int cell_steps = 0;     // 0: one cell state that is overwritten; 1: one per step
  int training = 0;       // keep what the backward pass needs
  int tile_width = 0;     // units of a block
  int unit_tiles = 0;
  int sample_tiles = 0;
  int rounds = 0;                               // turns in which a block's samples are taken, `height` at a time
  int slices = 1;                               // threads or warps that share rows: a power of two
  unsigned* hung = nullptr;                     // 0, or 1 + the step whose exchange came to nothing
  unsigned long long patience = 2000000000ULL;  // nanoseconds that a thread waits for another block
};

inline constexpr int kLargestSteps = 1 << 24;

// The time at which a side is in its n-th step.
MILLRACE_HOST_DEVICE int time_of(const Side& side, int steps, int step) { return side.reversed != 0 ? steps - 1 - step : step; }

}  // namespace millrace::rnn
