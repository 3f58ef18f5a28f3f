// The steps of a recurrent layer that wait for each other: one direction, forward or back, on a team of threads that each
// have some of the hidden units and meet at every step. Internal to core/cpu.
//
//   StepLoop loop(shape, direction, weights, keep);
//   loop.forward(threads, steps, valid, y);
//   loop.back(threads, steps, valid, dy);
//
// All of it lies time-major, [step][sample][...], so that what a step needs is one matrix. Where a sample has ended its
// state stays and its record is cleared going back. Results do not depend on the threads, nor on how `steps` divide the
// sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cpu/packed_product.h"
#include "core/device/recurrent_shape.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

// Where one direction keeps what; offsets in floats.
class KeepPlan {
 public:
  explicit KeepPlan(const RecurrentShape& shape);
  int64_t floats() const { return floats_; }

  int64_t record = 0;   // [step][sample][record]: gates; going back, errors of their sums
  int64_t h = 0;        // [step + 1][sample][features]: the state before the first step, then behind each
  int64_t c = 0;        // likewise of an lstm
  int64_t m = 0;        // projected: what is projected
  int64_t dp = 0;       // projected: the error of what came out
  int64_t dh = 0;       // [sample][features]: what goes back to the step before
  int64_t dc = 0;       // [sample][hidden]
  int64_t scratch = 0;  // [sample][hidden]

 private:
  int64_t add(int64_t floats);
  int64_t floats_ = 0;
};

// A direction's weights, packed for F and for E.
struct StepWeights {
  StepWeights(const RecurrentShape& shape, int64_t lanes, PackedAs as);
  void pack(int threads, const float* hidden_weight, const float* projection_weight);

  PackedMatrix hidden, hidden_back;          // of gru: without the candidate's part
  PackedMatrix candidate, candidate_back;    // gru
  PackedMatrix projection, projection_back;  // projected lstm
  std::vector<float> bias;                   // by column of the record: what joins the sums of x W, and of U h' + b

 private:
  RecurrentShape shape_;
};

class StepLoop {
 public:
  StepLoop(const RecurrentShape& shape, int64_t direction, const StepWeights& weights, const KeepPlan& plan, float* keep)
      : s_(shape), direction_(direction), w_(weights), plan_(plan), keep_(keep) {}

  // The record of a step, and the states behind and before it.
  float* record(int64_t t) const { return keep_ + plan_.record + t * s_.samples * s_.record * s_.hidden; }
  float* h(int64_t t) const { return keep_ + plan_.h + place(t) * s_.samples * s_.features; }
  float* c(int64_t t) const { return keep_ + plan_.c + place(t) * s_.samples * s_.hidden; }
  float* h_before(int64_t t) const { return h(s_.before(direction_, t)); }
  float* c_before(int64_t t) const { return c(s_.before(direction_, t)); }
  // Of all steps: the rows that `record(0)`, `m(0)` and so on begin.
  float* m(int64_t t) const { return keep_ + plan_.m + t * s_.samples * s_.hidden; }
  float* dp(int64_t t) const { return keep_ + plan_.dp + t * s_.samples * s_.features; }
  int64_t first_step() const { return direction_ == 0 ? 0 : s_.steps - 1; }
  int64_t last_step() const { return direction_ == 0 ? s_.steps - 1 : 0; }

  // The records hold the sums of x W and their biases. `valid` steps by sample; y is [sample][step][channels].
  void forward(int threads, StepRange steps, std::span<const int64_t> valid, float* y) const;
  // `dy` like y. The errors of the sums replace the gates.
  void back(int threads, StepRange steps, std::span<const int64_t> valid, const float* dy) const;

 private:
  struct Part;  // what one thread of the team has to do

  int64_t place(int64_t t) const { return direction_ == 0 ? t + 1 : t; }
  // A sample's own part of y or dy at a step.
  int64_t y_offset(int64_t n, int64_t t) const { return (n * s_.steps + t) * s_.features * s_.directions + direction_ * s_.features; }

  const RecurrentShape& s_;
  int64_t direction_;
  const StepWeights& w_;
  const KeepPlan& plan_;
  float* keep_;
};

}  // namespace millrace::cpu
