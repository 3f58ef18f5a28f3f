// Where a recurrent layer keeps what of a micro-batch on a GPU, by direction. Internal to gpu/device.
//
//   const RecurrentMemory memory(shape, precision, keep.data(), direction);
//   memory.gates(t)                            // [sample][gate][unit] of own step t
//   memory.states(t)                           // behind own step t; states(-1) before the first
//
// States and gate errors, which are factors of products, are kept in `precision`, all else in fp32.
// Gate errors take the place of the gates, from the last step to the first: whoever computes them sets the gates of those steps aside
// before. So nothing needs to be recomputed: what recomputing the gates would leave to keep is what is kept. All of it in the direction's
// own time (sequence_work.h), [step][sample][...], so that what a step or a product over steps needs is one matrix. Of a projected lstm
// `states` are what is projected and `features` what comes out; elsewhere both are one. Plain arithmetic; owns nothing.
#pragma once

#include "core/device/recurrent_shape.h"
#include "gpu/device/stored.h"

namespace millrace::gpu {

class RecurrentMemory {
 public:
  RecurrentMemory(const RecurrentShape& shape, Precision precision, float* keep, int64_t direction) : s_(shape), precision_(precision) {
    const int64_t rows = s_.steps * s_.samples, sums = s_.gates * s_.hidden, hidden = s_.samples * s_.hidden;
    const bool gru = s_.cell == CellKind::kGru;
    // Errors in sixteen bits lie at the end of the gates' place: those of steps from t on touch no gates of steps before t.
    const int64_t half = is_narrow(precision) ? whole_lines((rows * sums + 1) / 2) : 0;
    gates_ = take(is_narrow(precision) ? 2 * half : rows * sums);
    gate_errors_ = gates_ + half;
    states_ = take_factors(rows * s_.hidden + hidden);
    features_ = s_.projects ? take((rows + s_.samples) * s_.features) : states_;
    if (s_.has_cell_state()) cells_ = take(rows * s_.hidden + hidden);
    if (gru) candidate_ = take(rows * s_.hidden);
    if (gru && !s_.reset_after) reset_states_ = take_factors(rows * s_.hidden);
    input_errors_ = gru && s_.reset_after ? take_factors(rows * sums) : gate_errors_;
    if (s_.projects) feature_errors_ = take(rows * s_.features);
    carry_ = take(hidden);
    base_ = keep == nullptr ? nullptr : keep + direction * floats_;
  }

  int64_t floats() const { return floats_; }  // of one direction

  float* gates(int64_t t) const { return base_ + gates_ + t * s_.samples * s_.gates * s_.hidden; }
  StoredFloats states(int64_t t) const { return factors(states_, (t + 1) * s_.samples * s_.hidden); }
  // Of a projected lstm in fp32.
  StoredFloats features(int64_t t) const {
    if (!s_.projects) return states(t);
    return base_ + features_ + (t + 1) * s_.samples * s_.features;
  }
  float* cells(int64_t t) const { return base_ + cells_ + (t + 1) * s_.samples * s_.hidden; }
  float* candidate(int64_t t) const { return base_ + candidate_ + t * s_.samples * s_.hidden; }
  StoredFloats reset_states(int64_t t) const { return factors(reset_states_, t * s_.samples * s_.hidden); }
  // Of the sums with the state's product, and of those with the input's.
  StoredFloats gate_errors(int64_t t) const { return factors(gate_errors_, t * s_.samples * s_.gates * s_.hidden); }
  StoredFloats input_errors(int64_t t) const { return factors(input_errors_, t * s_.samples * s_.gates * s_.hidden); }
  float* feature_errors(int64_t t) const { return base_ + feature_errors_ + t * s_.samples * s_.features; }  // projected
  float* carry() const { return base_ + carry_; }

 private:
  int64_t take(int64_t floats) {
    const int64_t offset = floats_;
    floats_ += whole_lines(floats);
    return offset;
  }
  static int64_t whole_lines(int64_t floats) {
    constexpr int64_t kLine = 64;
    return (floats + kLine - 1) / kLine * kLine;
  }
  int64_t take_factors(int64_t count) { return take((count * bytes_of(precision_) + 3) / 4); }
  StoredFloats factors(int64_t offset, int64_t elements) const { return StoredFloats(base_ + offset, precision_).from(elements); }

  const RecurrentShape& s_;
  Precision precision_;
  float* base_ = nullptr;
  int64_t floats_ = 0;
  int64_t gates_ = 0, states_ = 0, features_ = 0, cells_ = 0, candidate_ = 0, reset_states_ = 0;
  int64_t gate_errors_ = 0, input_errors_ = 0, feature_errors_ = 0, carry_ = 0;
};

}  // namespace millrace::gpu
