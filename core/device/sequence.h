// What kernels ask about the sequences of a micro-batch: how long each sample is here, and which steps a call is about.
//
//   for (int64_t t = steps.begin; t < steps.end; ++t) ...      // const StepRange steps = chunk_of(batch, T)
//   if (t < valid_steps(spec, batch, sample)) ...
//
// Fails with kMismatch when a micro-batch has lengths, but not one per sample.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/device.h"

namespace millrace {

inline StepRange chunk_of(const MicroBatch& batch, int64_t steps) {
  return {steps * batch.chunk / batch.chunks, steps * (batch.chunk + 1) / batch.chunks};
}

// Rows of the kernel's first input that belong to the sample.
inline int64_t valid_steps(const KernelSpec& spec, const MicroBatch& batch, int64_t sample) {
  const int64_t rows = spec.inputs[0].height;
  if (batch.lengths.empty()) return rows;
  if (static_cast<int64_t>(batch.lengths.size()) != spec.micro_batch)
    fail(ErrorCode::kMismatch, "layer \"{}\": {} lengths for {} samples; give one for each, or none", spec.layer, batch.lengths.size(),
         spec.micro_batch);
  return std::min(rows, spec.steps.steps(fast_item(batch.lengths, sample)));
}

// For layers that have no notion of a sample's end.
inline void refuse_short_samples(const KernelSpec& spec, const MicroBatch& batch) {
  for (int64_t sample = 0; sample < spec.micro_batch; ++sample)
    if (const int64_t steps = valid_steps(spec, batch, sample); steps != 0 && steps < spec.inputs[0].height)
      fail(ErrorCode::kUnavailable, "layer \"{}\" takes all {} rows of every sample, but sample {} ends after {}; use last_step instead",
           spec.layer, spec.inputs[0].height, sample, steps);
}

}  // namespace millrace
