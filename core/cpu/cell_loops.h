// The pointwise part of recurrent cells over runs of hidden units, vectorised: core/device/cell_math.h with sigmoid and tanh
// of our own. Internal to core/cpu.
//
//   lstm_forward({record, record + hidden, ...}, c_before, c, m, count);
//
// Both functions are good to about two units in the last place, saturate for large sums and let NaN through; multiplications
// and additions are not contracted, so every instruction set gives the same bits.
#pragma once

#include <cstdint>

namespace millrace::cpu {

// Where the gates of the first unit are; they become activations going forward, errors of their sums going back.
struct LstmGates {
  float *i, *f, *g, *o;
  float hard_slope;  // of a hard sigmoid; 0: sigmoid
};
void lstm_forward(const LstmGates& gates, const float* c_before, float* c, float* m, int64_t count);
// dc: of c in, of c_before out.
void lstm_back(const LstmGates& gates, const float* c_before, const float* c, const float* dm, float* dc, int64_t count);

struct GruGates {
  float *r, *z, *n;
  float* extra;      // reset after: u = U h' + b; reset before: r h'
  float hard_slope;  // as above
};
void gru_forward_reset_after(const GruGates& gates, const float* h_before, float* h, int64_t count);
void gru_back_reset_after(const GruGates& gates, const float* h_before, float* dh, int64_t count);
void gru_forward_gates(const GruGates& gates, const float* h_before, int64_t count);
void gru_forward_state(const GruGates& gates, const float* h_before, float* h, int64_t count);
void gru_back_state(const GruGates& gates, const float* h_before, float* dh, int64_t count);
void gru_back_gates(const GruGates& gates, const float* h_before, const float* dreset, float* dh, int64_t count);

void vanilla_forward(bool relu, const float* sums, float* h, int64_t count);
// errors: of the sums.
void vanilla_back(bool relu, const float* h, const float* dh, float* errors, int64_t count);

// For tests.
void sigmoid(const float* x, float* y, int64_t count);
void tanh(const float* x, float* y, int64_t count);

}  // namespace millrace::cpu
