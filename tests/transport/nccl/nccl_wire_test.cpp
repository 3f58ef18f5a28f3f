#include "transport/nccl/nccl_wire.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::fill;
using testing_support::holds;
using testing_support::outcomes_on_threads;

int devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Ids as they would travel in control messages, for ranks that are threads. By sender, receiver and direction.
struct Ids {
  NcclNeighbours neighbours(int64_t rank, std::vector<int64_t> peers) {
    NcclNeighbours made{.device = static_cast<int>(rank), .peers = std::move(peers)};
    made.tell = [this, rank](const LineName& line, const NcclId& id) {
      const std::scoped_lock lock(mutex);
      ids[{rank, line.peer, line.direction}] = id;
    };
    made.ask = [this, rank](const LineName& line) -> std::optional<NcclId> {
      const std::scoped_lock lock(mutex);
      const auto found = ids.find({line.peer, rank, line.direction});
      return found == ids.end() ? std::nullopt : std::optional(found->second);
    };
    return made;
  }
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, Direction>, NcclId> ids;
};

TEST(NcclWire, SaysWhichLibraryItUses) { EXPECT_THAT(nccl_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+")); }

TEST(NcclWire, SaysThatThereIsNoGpu) {
  if (devices() > 0) GTEST_SKIP() << "there is a GPU";
  LocalHub hub(2);
  Ids ids;
  try {
    NcclWire wire(hub.wire(0), ids.neighbours(0, {1}));
    FAIL() << "no GPU, and no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("there is no GPU here (cudaGetDeviceCount: "));
  }
}

TEST(NcclWire, LeavesHostMemoryToTheHostWire) {
  LocalHub hub(2);
  NcclWire first(hub.wire(0), {}), second(hub.wire(1), {});
  ChannelSpec spec{.peer = 1, .tag = 3, .outgoing = true, .payload_bytes = 128};
  Channel& from = first.open(spec);
  spec.peer = 0;
  spec.outgoing = false;
  spec.token = 17;
  Channel& to = second.open(spec);
  fill({from.slot(0).payload, 128}, 4);
  from.send(0, 128);
  std::vector<Arrival> arrivals;
  second.progress(arrivals);
  ASSERT_EQ(arrivals.size(), 1u);
  EXPECT_EQ(arrivals[0].token, 17u);
  EXPECT_TRUE(holds({to.slot(0).payload, 128}, 4));
}

TEST(NcclWire, RefusesANeighbourWithoutAGpu) {
  LocalHub hub(2);
  NcclWire wire(hub.wire(0), {});
  try {
    wire.open({.peer = 1, .outgoing = true, .payload_bytes = 128, .device_memory = true});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("sending to rank 1 (forward): device memory travels between ranks that both drive a GPU"));
  }
}

TEST(NcclWire, GivesUpWhenTheOtherEndDoesNotCome) {
  if (devices() == 0) GTEST_SKIP() << "no GPU";
  LocalHub hub(2);
  Ids ids;
  NcclNeighbours neighbours = ids.neighbours(0, {1});
  neighbours.deadline = std::chrono::milliseconds(200);
  NcclWire wire(hub.wire(0), neighbours);
  wire.open({.peer = 1, .outgoing = false, .payload_bytes = 128, .device_memory = true});
  try {
    std::vector<Arrival> arrivals;
    for (;;) wire.progress(arrivals);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("receiving from rank 1 (forward): no NCCL communicator after 0.2 s: its id has not come"));
  }
}

// Both ways at once, through the slots of two GPUs.
TEST(NcclWire, CarriesPayloadsBetweenGpus) {
  if (devices() < 2) GTEST_SKIP() << (devices() == 0 ? "no GPU" : "one GPU: NCCL wants one for each rank");
  constexpr size_t kBytes = 1 << 20;
  constexpr int64_t kMessages = 20;
  LocalHub hub(2);
  Ids ids;
  const std::vector<std::string> outcomes = outcomes_on_threads(2, [&](int64_t rank) {
    FlowTable table = testing_support::both_ways(2, kBytes, 2);
    for (FlowSpec& flow : table.flows) flow.device_memory = true;
    Transport transport(std::make_unique<NcclWire>(hub.wire(rank), ids.neighbours(rank, {1 - rank})));
    transport.open(table);
    const int64_t out = rank, in = 1 - rank;
    std::vector<std::byte> host(kBytes);
    int64_t sent = 0, received = 0;
    while (sent < kMessages || received < kMessages || !transport.idle()) {
      transport.progress();
      if (sent < kMessages && transport.can_send(out)) {
        fill(host, static_cast<uint64_t>(100 * out + sent));
        ASSERT_EQ(cudaMemcpy(transport.begin_send(out).data(), host.data(), kBytes, cudaMemcpyHostToDevice), cudaSuccess);
        transport.commit_send(out, {.index = sent++}, kBytes);
      }
      if (transport.has_message(in)) {
        const auto payload = transport.begin_receive(in, {.index = received}, kBytes);
        ASSERT_EQ(cudaMemcpy(host.data(), payload.data(), kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
        EXPECT_TRUE(holds(host, static_cast<uint64_t>(100 * in + received++)));
        transport.release(in);
      }
    }
    transport.drain();
    transport.leave();
  });
  for (const std::string& outcome : outcomes) EXPECT_EQ(outcome, "");
}

}  // namespace
}  // namespace millrace
