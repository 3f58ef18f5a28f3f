// Launches captured once and replayed: the bits of launches one by one, in any order of the queues; and without captures where an engine
// cannot, or not this work.
#include <gtest/gtest.h>

#include "gpu/device/gpu_device.h"
#include "gpu/device/replaying_engine.h"
#include "tests/gpu/device/device_cases.h"
#include "tests/gpu/device/queued_engine.h"
#include "tests/gpu/device/ring_cases.h"

namespace millrace::testing {
namespace {

RingCase ring_of(const QueuedOptions& options, gpu::ReplayCounts* counts, Alignment alignment = Alignment::kFlush) {
  return {.gpu = 1,
          .open_gpu =
              [options, counts] {
                std::unique_ptr<gpu::Engine> engine = std::make_unique<QueuedEngine>(options);
                if (counts != nullptr) engine = std::make_unique<gpu::ReplayingEngine>(std::move(engine), counts);
                return make_gpu_device(std::move(engine));
              },
          .steps = 4,
          .alignment = alignment,
          .cuts = 5};
}

TEST(GpuReplay, LearnsTheBitsOfLaunchesOneByOne) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kFpdeep}) {
    SCOPED_TRACE(name_of(alignment));
    gpu::ReplayCounts counts;
    const RingWeights plain = trained_on_ring(ring_of({.seed = 3}, nullptr, alignment), true);
    EXPECT_EQ(same_bits(plain, trained_on_ring(ring_of({.seed = 4}, &counts, alignment), true)), "");
    EXPECT_GT(counts.captured, 0);
    EXPECT_EQ(counts.refused, 0);
    EXPECT_GT(counts.replayed, 2 * counts.captured);
    EXPECT_GT(counts.in_graphs, counts.issued / 2);
  }
}

TEST(GpuReplay, GraphsThatForgetACallAreNoticed) {
  gpu::ReplayCounts counts;
  const RingWeights plain = trained_on_ring(ring_of({.seed = 3}, nullptr), true);
  EXPECT_NE(same_bits(plain, trained_on_ring(ring_of({.seed = 4, .forgets_last_call = true}, &counts), true)), "");
}

TEST(GpuReplay, IssuesWhatCannotBeCaptured) {
  const RingWeights plain = trained_on_ring(ring_of({.seed = 3}, nullptr), true);
  gpu::ReplayCounts none, some;
  EXPECT_EQ(same_bits(plain, trained_on_ring(ring_of({.seed = 5, .captures = false}, &none), true)), "");
  EXPECT_EQ(none.captured, 0);
  EXPECT_EQ(none.replayed, 0);
  EXPECT_GT(none.refused, 0);
  EXPECT_EQ(same_bits(plain, trained_on_ring(ring_of({.seed = 6, .breaks_capture_at = 3}, &some), true)), "");
  EXPECT_EQ(some.refused, 1);
  EXPECT_GT(some.replayed, 0);
}

TEST(GpuReplay, EveryOperationMatchesTheReferenceInAnyOrderOfItsQueues) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Queued gpu({.seed = seed}, {.staging_bytes = 256, .graphs = true});
    EXPECT_EQ(operations_match(*gpu.device, {.per_kind = 8, .seed = 70 + seed}, 1e-5), "");
  }
}

// Order, arguments and events, call by call.
TEST(GpuReplay, ReplaysEqualRowsAndNoOthers) {
  gpu::ReplayCounts counts;
  auto made = std::make_unique<QueuedEngine>(QueuedOptions{.eager = false});
  QueuedEngine& queues = *made;
  gpu::ReplayingEngine engine(std::move(made), &counts);
  auto* const values = static_cast<float*>(engine.allocate(4 * sizeof(float)));
  const int event = engine.make_event();
  const auto row = [&](int64_t elements) {
    engine.fill_zero(values, 4 * sizeof(float));
    engine.run(gpu::AddBias{.values = values, .bias = values + 3, .channels = 1, .plane = 1, .elements = elements});
    engine.record(event, gpu::Queue::kCompute);
    engine.wait_here(event);
    return std::vector<float>(values, values + 4);
  };
  EXPECT_EQ(row(2), std::vector<float>(4, 0));
  EXPECT_EQ(counts.issued, 2);
  EXPECT_EQ(row(2), std::vector<float>(4, 0));
  EXPECT_EQ(counts.captured, 1);
  EXPECT_EQ(counts.replayed, 1);
  row(1);  // another argument
  EXPECT_EQ(counts.captured, 1);
  EXPECT_EQ(counts.issued, 4);
  row(2);
  EXPECT_EQ(counts.replayed, 2);
  EXPECT_EQ(queues.replays(), 2);
  // What comes from elsewhere into the queue comes behind what is held back.
  engine.fill_zero(values, sizeof(float));
  values[0] = 1;
  engine.wait(gpu::Queue::kCompute, event);
  engine.synchronize();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(engine.native(gpu::Queue::kCompute), nullptr);
  engine.release(values);
}

}  // namespace
}  // namespace millrace::testing
