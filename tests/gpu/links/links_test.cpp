// Rings whose GPUs talk by lines past the host, ranks as threads: the same bits as by way of the host, and a reason wherever they do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/zoo.h"
#include "tests/gpu/links/link_ring.h"
#include "tests/transport/rings.h"
#include "transport/local/local_wire.h"

namespace millrace::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct RingOfRuns {
  std::vector<std::string> errors;
  std::vector<LinkRun> runs;
  std::string error() const {
    std::string all;
    for (size_t r = 0; r < errors.size(); ++r)
      if (!errors[r].empty()) all += fmt::format("rank {}: {}; ", r, errors[r]);
    return all;
  }
  int64_t transfers() const {
    int64_t sum = 0;
    for (const LinkRun& run : runs) sum += run.transfers;
    return sum;
  }
};

RingOfRuns train(const LinkCase& c, int64_t ranks) {
  RingOfRuns ring;
  ring.runs.resize(static_cast<size_t>(ranks));
  LocalHub hub(ranks);
  ring.errors = testing_support::outcomes_on_threads(
      ranks, [&](int64_t rank) { ring.runs[static_cast<size_t>(rank)] = run_rank(c, hub.wire(rank)); });
  return ring;
}

LinkCase by_mpi(LinkCase c) {
  c.use = LinkUse::kMpi;
  return c;
}

void expect_same_weights(const LinkCase& c, int64_t ranks) {
  const RingOfRuns lines = train(c, ranks), host = train(by_mpi(c), ranks);
  ASSERT_EQ(lines.error(), "");
  ASSERT_EQ(host.error(), "");
  EXPECT_NE(host.runs[0].weights, "");
  EXPECT_EQ(lines.runs[0].weights, host.runs[0].weights);
  EXPECT_GT(lines.transfers(), 0);
  EXPECT_EQ(host.transfers(), 0);
  for (size_t rank = 0; rank < lines.runs.size(); ++rank)  // what moves does not depend on what carries it
    EXPECT_EQ(lines.runs[rank].counters, host.runs[rank].counters) << "rank " << rank;
}

TEST(Links, GpusLearnTheSameBitsWithNcclAsWithMpi) {
  for (const int64_t ranks : {2, 4})
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("{} ranks, seed {}", ranks, seed));
      const Alignment alignments[] = {Alignment::kFlush, Alignment::kFpdeep, Alignment::kOneForwardOneBackward};
      expect_same_weights({.devices = 4, .alignment = alignments[seed - 1], .cuts = 3 + seed, .seed = seed}, ranks);
    }
}

TEST(Links, SixteenBitMessagesAreRoundedOnTheDeviceAsOnTheHost) {
  for (const ElementType wire : {ElementType::kBfloat16, ElementType::kFloat16}) {
    SCOPED_TRACE(name_of(wire));
    expect_same_weights({.devices = 2, .gpus = {0, 1}, .wire = wire}, 2);
  }
}

TEST(Links, AMixedRingTakesEachWireWhereItShould) {
  const LinkCase c{.devices = 4, .gpus = {0, 1, 2}};
  expect_same_weights(c, 4);
  EXPECT_EQ(train(c, 4).runs[3].links, "links: 0 to 1 by NCCL 2.28.9; 2 by MPI (device 3 is no GPU here)");
  EXPECT_EQ(train(c, 2).runs[0].links, "links: 0 in memory (within rank 0); 1 by NCCL 2.28.9; 2 in memory (within rank 1)");
}

TEST(Links, TwoDevicesOnOneGpuTakeMpi) {
  const RingOfRuns ring = train({.devices = 2, .gpus = {0, 1}, .one_gpu = true, .steps = 1}, 2);
  EXPECT_EQ(ring.error(), "");
  EXPECT_EQ(ring.runs[0].links, "links: 0 by MPI (devices 0 and 1 share GPU-0)");
  EXPECT_EQ(ring.transfers(), 0);
}

TEST(Links, DifferentLibrariesTakeMpi) {
  const RingOfRuns ring = train({.devices = 2, .gpus = {0, 1}, .drivers = {{1, {.version = "2.21.5"}}}, .steps = 1}, 2);
  EXPECT_EQ(ring.error(), "");
  EXPECT_EQ(ring.runs[1].links, "links: 0 by MPI (device 0 has NCCL 2.28.9, device 1 has 2.21.5)");
}

TEST(Links, ALineThatDoesNotComeAboutLeavesItsLinkToMpi) {
  LinkCase c{.devices = 3, .gpus = {0, 1, 2}, .drivers = {{2, {.joins = false}}}, .deadline = std::chrono::seconds(10)};
  const RingOfRuns ring = train(c, 3);
  EXPECT_EQ(ring.error(), "");
  EXPECT_THAT(ring.runs[0].links, StartsWith("links: 0 by NCCL 2.28.9; 1 by MPI ("));
  EXPECT_THAT(ring.runs[0].links, HasSubstr("NCCL has not joined the two after 5.0 s; see that rank"));
  EXPECT_EQ(ring.runs[2].links, ring.runs[0].links);
  EXPECT_GT(ring.runs[0].transfers, 0);
  EXPECT_EQ(ring.runs[2].transfers, 0);
  EXPECT_EQ(ring.runs[0].weights, train(by_mpi(c), 3).runs[0].weights);
}

TEST(Links, WhoeverDemandsNcclHearsWhichLinkCannotAndWhy) {
  const RingOfRuns ring = train({.devices = 3, .gpus = {0, 1}, .use = LinkUse::kNccl, .steps = 1}, 3);
  EXPECT_THAT(ring.errors, Each(StartsWith("--links nccl: link 1 cannot take NCCL: device 2 is no GPU here; take --links auto")));
  EXPECT_EQ(ring.transfers(), 0);
}

TEST(Links, ATransferThatFailsNamesTheNeighbour) {
  const RingOfRuns ring =
      train({.devices = 2, .gpus = {0, 1}, .drivers = {{0, {.failing_transfer = 7}}}, .deadline = std::chrono::seconds(60)}, 2);
  EXPECT_THAT(ring.errors[0], HasSubstr("rank 1 ("));
  EXPECT_THAT(ring.errors[0], HasSubstr("ncclSend: unhandled system error"));
  EXPECT_THAT(ring.errors[1], HasSubstr("ncclSend: unhandled system error"));  // told by rank 0
}

// Without the wait, a payload leaves before it was packed, or is received over one that is still read.
TEST(Links, TheOrderOfStreamsMatters) {
  const LinkCase c{.devices = 2, .gpus = {0, 1}, .steps = 2};
  const std::string right = train(by_mpi(c), 2).runs[0].weights;
  LinkCase careless = c;
  for (const int64_t rank : {0, 1}) careless.drivers[rank] = {.waits_for_calculations = false};
  const RingOfRuns wrong = train(careless, 2);
  EXPECT_TRUE(!wrong.error().empty() || wrong.runs[0].weights != right);
}

TEST(Links, RecurrentLayersKeepTheHost) {
  const Graph graph(zoo_model("char-rnn"));
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 1);
  DevicesHere devices;
  devices[0] = make_gpu_device(std::make_unique<QueuedEngine>(QueuedOptions{}));
  const std::vector<LinkDevice> links = link_devices(single_device_plan(graph, request), graph, devices);
  EXPECT_FALSE(links.at(0).location.has_value());
  EXPECT_THAT(links[0].reason, HasSubstr("recurrent layers"));
}

}  // namespace
}  // namespace millrace::testing
