// One GPU, on queues of the host, among processors in a ring: it learns what they learn.
#include <gtest/gtest.h>

#include "gpu/device/gpu_device.h"
#include "tests/gpu/device/queued_engine.h"
#include "tests/gpu/device/ring_cases.h"

namespace millrace::testing {
namespace {

std::function<std::unique_ptr<Device>()> queued(uint64_t seed) {
  return [seed] { return make_gpu_device(std::make_unique<QueuedEngine>(QueuedOptions{.seed = seed})); };
}

TEST(GpuRing, LearnsWhatProcessorsLearnWhereverTheGpuIs) {
  for (int64_t gpu = 0; gpu < 3; ++gpu) {
    SCOPED_TRACE(fmt::format("device {}", gpu));
    const RingCase c{.gpu = gpu,
                     .open_gpu = queued(static_cast<uint64_t>(gpu) + 1),
                     .steps = 3,
                     .alignment = gpu == 1 ? Alignment::kFpdeep : Alignment::kFlush,
                     .cuts = static_cast<uint64_t>(gpu) + 4};
    EXPECT_EQ(ring_matches(c, 1e-4), "");
  }
}

// All cells, a projection, both directions and what goes around layers, on the GPU and behind it.
TEST(GpuRing, WhatIsMadeAgainChangesNoBit) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kZeroBubble}) {
    RingCase c{.gpu = 1, .open_gpu = queued(11), .steps = 2, .alignment = alignment, .network = deep_stack(8)};
    const RingWeights kept = trained_on_ring(c, true);
    c.recompute = true;
    EXPECT_EQ(same_bits(kept, trained_on_ring(c, true)), "") << name_of(alignment);
  }
}

}  // namespace
}  // namespace millrace::testing
