// How much the plan's flows move: of one message, of a mini-batch, over a link. Exact integers, for every reader that counts.
//
//   const LinkLoad load = load_of(plan, /*link=*/2, Direction::kForward);
//   const std::vector<int64_t> lanes = lane_loads(plan);               // lanes[2 * link + 1]: backward
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

// A slice of a shard's parameters or of their gradients, once per pass; everything else moves once per sample.
inline bool carries_parameters(Stream stream) { return stream == Stream::kParameter || stream == Stream::kGradient; }
inline bool carries_parameters(const Flow& flow) { return carries_parameters(flow.stream); }

// Once: of a sample, or of a pass.
int64_t elements_at_once(const Flow& flow);
// Of the message: a pass, or a micro-batch of samples.
int64_t elements_of_message(const Flow& flow, const Plan& plan);

// In steady state.
int64_t elements_per_mini_batch(const Flow& flow, const Plan& plan);
int64_t bits_per_mini_batch(const Flow& flow, const Plan& plan);
// A part of them is that of parameters: not an integer.
double bits_per_sample(const Flow& flow, const Plan& plan);

// The device that uses the parameters a flow carries, or makes the gradients.
int64_t user_of(const Flow& flow, const Plan& plan);

// What crosses one link in one direction during a mini-batch.
struct LinkLoad {
  int64_t elements_per_mini_batch = 0;
  int64_t bits_per_mini_batch = 0;
};
LinkLoad load_of(const Plan& plan, int64_t link, Direction direction);
// Bits of a mini-batch, of every lane: by 2 * link, one more for backward.
std::vector<int64_t> lane_loads(const Plan& plan);

}  // namespace millrace
