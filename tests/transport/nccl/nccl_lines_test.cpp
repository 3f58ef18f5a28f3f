// Lines over a driver: the stand-in, and NCCL itself as far as this machine lets it.
#include "transport/nccl/nccl_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/transport/nccl/standin_driver.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"
#include "transport/nccl/line_module.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::fill;
using testing_support::holds;
using testing_support::outcomes_on_threads;
using testing_support::StandInDriver;
using testing_support::StandInQueue;

// Calculations that are late, until somebody nudges them.
class LateCalculations final : public StandInQueue {
 public:
  void queue_behind(std::function<void()> work) override { queued_.push_back(std::move(work)); }
  void nudge() override {
    if (queued_.empty()) return;
    queued_.front()();
    queued_.pop_front();
  }

 private:
  std::deque<std::function<void()>> queued_;
};

LineName line(int64_t peer, bool outgoing) {
  return {.peer = peer, .outgoing = outgoing, .direction = outgoing ? Direction::kForward : Direction::kBackward};
}

// Two ranks whose lines are ready; rank 0 sends forward, rank 1 backward.
struct Ends {
  explicit Ends(const testing_support::StandInOptions& options = {}, int second_gpu = 1) : options_(options), second_gpu_(second_gpu) {
    for (LineId& id : ids_) id = driver_.make_id();
  }
  std::unique_ptr<AnnouncedWire> wire(int64_t rank, LocalHub& hub, void* calculations) {
    const auto driver = std::make_shared<StandInDriver>(options_);
    NcclLines lines(driver);
    const DeviceLocation location{.id = "GPU", .number = rank == 0 ? 0 : second_gpu_, .queue = calculations};
    LineName names[2];
    for (int way = 0; way < 2; ++way) {
      const bool forward = way == 0;
      names[way] = {
          .peer = 1 - rank, .outgoing = forward == (rank == 0), .direction = forward ? Direction::kForward : Direction::kBackward};
      lines.begin(names[way], location, ids_[way]);
    }
    const Instant until = machine_clock().now() + std::chrono::seconds(100);
    for (const LineName& name : names)
      while (!lines.joined(name))
        if (machine_clock().now() > until) fail(ErrorCode::kTimeout, "not joined");
    auto wire = std::make_unique<AnnouncedWire>(hub.wire(rank));
    wire->attach(lines.take());
    return wire;
  }

 private:
  testing_support::StandInOptions options_;
  int second_gpu_;
  StandInDriver driver_;
  LineId ids_[2];
};

TEST(NcclLines, CarryMessagesBothWaysBehindCalculations) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    constexpr size_t kBytes = 5000;
    constexpr int64_t kMessages = 20;
    LocalHub hub(2);
    Ends ends({.seed = seed});
    const std::vector<std::string> outcomes = outcomes_on_threads(2, [&](int64_t rank) {
      LateCalculations calculations;
      FlowTable table = testing_support::both_ways(2, kBytes, 2);
      for (FlowSpec& flow : table.flows) flow.device_memory = true;
      Transport transport(ends.wire(rank, hub, &calculations));
      transport.open(table);
      const int64_t out = rank, in = 1 - rank;
      int64_t sent = 0, received = 0, read = 0;
      while (sent < kMessages || read < kMessages || !transport.idle()) {
        transport.progress();
        if (sent < kMessages && transport.can_send(out)) {
          const std::span<std::byte> payload = transport.begin_send(out);
          const auto number = static_cast<uint64_t>(100 * out + sent);
          calculations.queue_behind([payload, number] { fill(payload, number); });
          transport.commit_send(out, {.index = sent++}, kBytes);
        }
        if (received < kMessages && transport.has_message(in)) {
          const auto payload = transport.begin_receive(in, {.index = received}, kBytes);
          const auto number = static_cast<uint64_t>(100 * in + received++);
          calculations.queue_behind([payload, number, &read] {
            EXPECT_TRUE(holds(payload, number)) << number;
            ++read;
          });
          transport.release(in);
        }
        if (sent == kMessages) calculations.nudge();
        std::this_thread::yield();
      }
      transport.drain();
      transport.leave();
    });
    for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
  }
}

TEST(NcclLines, TwoRanksOnOneGpuAreRefusedByName) {
  LocalHub hub(2);
  Ends ends({}, /*second_gpu=*/0);
  const std::vector<std::string> outcomes = outcomes_on_threads(2, [&](int64_t rank) { ends.wire(rank, hub, nullptr); });
  EXPECT_THAT(outcomes[0], HasSubstr("rank 1 ("));
  EXPECT_THAT(outcomes[0], HasSubstr("Duplicate GPU"));
  EXPECT_THAT(outcomes[1], HasSubstr("rank 0 ("));
}

TEST(NcclLines, WhatHasNotJoinedCarriesNothing) {
  LocalHub hub(2);
  AnnouncedWire wire(hub.wire(0));
  const ChannelSpec spec{.peer = 1, .outgoing = true, .payload_bytes = 128, .device_memory = true};
  EXPECT_THAT(testing_support::error_of([&] { wire.open(spec); }, ErrorCode::kUnavailable),
              HasSubstr("sending to rank 1 (forward): no accelerator of this rank takes part"));
  NcclLines lines(std::make_shared<StandInDriver>());
  wire.attach(lines.take());
  EXPECT_THAT(testing_support::error_of([&] { wire.open(spec); }, ErrorCode::kUnavailable),
              HasSubstr("sending to rank 1 (forward): device memory travels between GPUs that have joined by NCCL"));
}

TEST(NcclLines, GiveTheirMemoryBack) {
  LocalHub hub(1);
  const auto driver = std::make_shared<StandInDriver>();
  {
    NcclLines lines(driver);
    lines.begin(line(0, true), {.id = "GPU-0", .number = 0, .queue = nullptr}, driver->make_id());
    AnnouncedWire wire(hub.wire(0), lines.take());
    wire.open({.peer = 0, .outgoing = true, .payload_bytes = 128, .device_memory = true});
    EXPECT_EQ(driver->allocated(), 1);
  }
  EXPECT_EQ(driver->allocated(), 0);
}

// The module links NCCL and CUDA, and starts without a GPU.
TEST(LineModule, SaysItsVersionOrWhatIsMissing) {
  const LineSupport lines = line_support();
  if (lines.driver == nullptr) {
    EXPECT_NE(lines.reason, "");
    GTEST_SKIP() << "NCCL (" << lines.reason << ")";
  }
  EXPECT_THAT(lines.driver->version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(LineModule, FailsByNameWithoutAGpu) {
  const LineSupport lines = line_support();
  if (lines.driver == nullptr) GTEST_SKIP() << "NCCL (" << lines.reason << ")";
  try {
    lines.driver->release(0, lines.driver->allocate(0, 64));
    GTEST_SKIP() << "a machine without a GPU";
  } catch (const LineFailure& failure) {
    EXPECT_THAT(failure.what(), HasSubstr("cudaSetDevice"));
  }
}

TEST(LineModule, OneConnectionIsAReasonAgainstLines) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  EXPECT_THAT(line_support().reason, HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
  unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
}

}  // namespace
}  // namespace millrace
