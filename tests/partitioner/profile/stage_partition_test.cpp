#include "partitioner/profile/stage_partition.h"

#include <cmath>
#include <limits>

#include "partitioner/profile/replication.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

std::vector<std::string> firsts(const StagePartition& plan) {
  std::vector<std::string> names;
  for (const Stage& stage : plan.stages) names.push_back(stage.first);
  return names;
}

using testing::ElementsAre;
using testing::HasSubstr;

TEST(StagePartition, BalancesComputing) {
  const StagePartition plan = partition_stages(chain_of({4, 3, 3}), {.devices = 2});
  ASSERT_TRUE(plan.feasible);
  EXPECT_THAT(firsts(plan), ElementsAre("n0", "n1"));
  EXPECT_EQ(plan.max_stage_seconds, 6);
  EXPECT_EQ(plan.lower_bound_seconds, 6);
  EXPECT_EQ(plan.optimality_gap, 0);
  EXPECT_EQ(plan.bottleneck.kind, "device");
  EXPECT_EQ(plan.bottleneck.index, 1);
  EXPECT_EQ(plan.stages[1].last, "n2");
  EXPECT_EQ(plan.stages[1].compute_seconds, 6);
  EXPECT_EQ(plan.cuts, CutKind::kChain);
  EXPECT_EQ(plan.cuts_searched, 4);
}

TEST(StagePartition, CountsTransfersByObjective) {
  // 1e9 bytes over 8 Gb/s take a second, there and back two.
  const Profile profile = chain_of({4, 1, 5}, {3e9, 0.5e9, 7e9});
  StageTask task{.devices = 2, .objective = StageObjective::kMax, .link_gbps = {8}};
  StagePartition plan = partition_stages(profile, task);
  EXPECT_THAT(firsts(plan), ElementsAre("n0", "n2"));
  EXPECT_EQ(plan.max_stage_seconds, 5);
  EXPECT_EQ(plan.stages[0].out_seconds, 1);
  EXPECT_EQ(plan.stages[0].in_seconds, 0);
  EXPECT_EQ(plan.stages[1].in_seconds, 1);
  EXPECT_EQ(plan.stages[1].out_seconds, 0);  // what the last node makes goes nowhere
  task.objective = StageObjective::kSum;
  plan = partition_stages(profile, task);
  EXPECT_EQ(plan.max_stage_seconds, 6);
  EXPECT_EQ(plan.bottleneck.kind, "device");
  task = {.devices = 3, .objective = StageObjective::kMax, .link_gbps = {8}};
  plan = partition_stages(profile, task);
  EXPECT_EQ(plan.max_stage_seconds, 7);  // in and out of the middle stage: 6 + 1
  EXPECT_EQ(plan.bottleneck.kind, "link");
  EXPECT_EQ(plan.bottleneck.index, 0);
  task.exactly = false;
  EXPECT_EQ(partition_stages(profile, task).max_stage_seconds, 5);
}

TEST(StagePartition, IsNotMonotoneSoAGreedyProbeWouldMiss) {
  // With 10 s allowed, the longest first stage that fits ends behind n0, where nothing fits any more; a longer one would do.
  const Profile profile = chain_of({2, 2, 2, 2}, {1e9, 20e9, 1e9, 0});
  const StagePartition plan = partition_stages(profile, {.devices = 2, .objective = StageObjective::kMax, .link_gbps = {8}});
  EXPECT_EQ(plan.max_stage_seconds, 6);
  EXPECT_EQ(firsts(partition_stages(profile, {.devices = 3, .objective = StageObjective::kMax, .link_gbps = {8}})),
            (std::vector<std::string>{"n0", "n1", "n3"}));
}

TEST(StagePartition, FollowsSpeedsInOrder) {
  const Profile profile = chain_of({1, 1, 1, 1, 1, 1, 1, 1});
  StagePartition plan = partition_stages(profile, {.devices = 3, .speeds = {2, 1, 1}});
  EXPECT_THAT(firsts(plan), ElementsAre("n0", "n4", "n6"));
  EXPECT_EQ(plan.max_stage_seconds, 2);
  plan = partition_stages(profile, {.devices = 3, .speeds = {1, 1, 2}});
  EXPECT_THAT(firsts(plan), ElementsAre("n0", "n2", "n4"));
  // A slow device in the middle stays without work where that is allowed.
  plan = partition_stages(profile, {.devices = 3, .exactly = false, .speeds = {4, 0.1, 4}});
  EXPECT_THAT(firsts(plan), ElementsAre("n0", "n4"));
  EXPECT_EQ(plan.stages.back().device, 2);
  EXPECT_EQ(plan.max_stage_seconds, 1);
}

TEST(StagePartition, FollowsEachLinksBandwidth) {
  const Profile profile = chain_of({1, 1, 1, 1}, {1e9, 1e9, 1e9, 0});
  const StagePartition plan = partition_stages(profile, {.devices = 3, .objective = StageObjective::kSum, .link_gbps = {8, 80}});
  EXPECT_DOUBLE_EQ(plan.stages[0].out_seconds, 2);
  EXPECT_DOUBLE_EQ(plan.stages[1].in_seconds, 2);
  EXPECT_DOUBLE_EQ(plan.stages[1].out_seconds, 0.2);
  EXPECT_DOUBLE_EQ(plan.stages[2].in_seconds, 0.2);
}

TEST(StagePartition, BreaksTiesByMemoryThenTraffic) {
  // n1 fits on either side in time; its parameters make the first stage the fuller one.
  EXPECT_THAT(firsts(partition_stages(chain_of({3, 0, 3}, {1, 1, 1}, {5, 5, 5}, {0, 0, 0}), {.devices = 2})),
              ElementsAre("n0", testing::_));
  EXPECT_THAT(firsts(partition_stages(chain_of({3, 0, 3}, {}, {5, 5, 1}), {.devices = 2})), ElementsAre("n0", "n1"));
  EXPECT_THAT(firsts(partition_stages(chain_of({3, 0, 3}, {}, {1, 5, 5}), {.devices = 2})), ElementsAre("n0", "n2"));
  EXPECT_THAT(firsts(partition_stages(chain_of({3, 0, 3}, {9, 4, 0}), {.devices = 2})), ElementsAre("n0", "n2"));
  EXPECT_THAT(firsts(partition_stages(chain_of({3, 0, 3}, {4, 9, 0}), {.devices = 2})), ElementsAre("n0", "n1"));
}

TEST(StagePartition, HoldsMicroBatchesInFlight) {
  const Profile profile = chain_of({1, 1, 1}, {}, {10, 20, 30}, {100, 200, 300});
  StageTask task{.devices = 3};
  const auto memory = [&] {
    std::vector<double> bytes;
    for (const Stage& stage : partition_stages(profile, task).stages) bytes.push_back(stage.memory_bytes);
    return bytes;
  };
  EXPECT_THAT(memory(), ElementsAre(20 + 300, 40 + 400, 60 + 300));
  task.memory_rule = MemoryRule::kStash;
  EXPECT_THAT(memory(), ElementsAre(40 + 300, 60 + 400, 60 + 300));
  task.memory_rule = MemoryRule::kSum;
  EXPECT_THAT(memory(), ElementsAre(20 + 100, 40 + 200, 60 + 300));
  task.devices = 1;
  EXPECT_THAT(memory(), ElementsAre(120 + 600));
}

TEST(StagePartition, SaysWhatIsMissing) {
  const Profile profile = chain_of({1, 1, 1}, {}, {1e9, 1e9, 1e9}, {1e9, 1e9, 1e9});
  StagePartition plan = partition_stages(profile, {.devices = 4});
  EXPECT_FALSE(plan.feasible);
  EXPECT_EQ(plan.reason.resource, "nodes");
  EXPECT_EQ(plan.reason.missing, 1);
  EXPECT_THAT(plan.reason.text, HasSubstr("4 devices need a node each at least, and chain has 3; 3 devices"));

  plan = partition_stages(profile, {.devices = 1, .memory_bytes = 5e9});
  EXPECT_FALSE(plan.feasible);
  EXPECT_EQ(plan.reason.resource, "memory_bytes");
  EXPECT_EQ(plan.reason.device, 0);
  EXPECT_EQ(plan.reason.missing, 4e9);
  EXPECT_EQ(plan.reason.smallest_count, 3);  // on two devices the fuller one holds 6 GB or more
  EXPECT_THAT(plan.reason.text, HasSubstr("device 0 would need 9 GB for n0 to n2 (1 micro-batch in flight), 4 GB more than it has"));
  EXPECT_THAT(plan.reason.text, HasSubstr("3 devices of this memory would do"));

  plan = partition_stages(profile, {.devices = 3, .memory_bytes = 2.9e9});
  EXPECT_EQ(plan.reason.smallest_count, 0);
  EXPECT_THAT(plan.reason.text, HasSubstr("no number of devices up to 3 would do"));
  EXPECT_THAT(plan.reason.text, HasSubstr("no other cut for 3 devices"));
  Profile branches = profile;
  branches.edges = {{0, 2}, {1, 2}};
  EXPECT_THAT(partition_stages(branches, {.devices = 2, .memory_bytes = 1e9, .most_cuts = 1}).reason.text,
              HasSubstr("no other cut of the one order searched for 2 devices"));
  // More devices hold more micro-batches: fewer may do.
  const Profile light = chain_of({1, 1, 1}, {}, {}, {1e9, 1e9, 1e9});
  plan = partition_stages(light, {.devices = 3, .memory_bytes = 2.5e9});
  EXPECT_FALSE(plan.feasible);
  EXPECT_EQ(plan.reason.smallest_count, 2);
}

TEST(StagePartition, ReplicatesAsPipeDreamDoes) {
  EXPECT_DOUBLE_EQ(replicated_seconds(12, 1e9, 1, 1e9), 12);
  EXPECT_DOUBLE_EQ(replicated_seconds(12, 1e9, 3, 1e9), 4);
  EXPECT_DOUBLE_EQ(replicated_seconds(12, 6e9, 3, 1e9), 8);  // 2 * 2/3 * 6
  EXPECT_EQ(micro_batches_in_flight(5, 2), 3);
  // The convolutional part has the work and few parameters, the dense part the reverse.
  const Profile profile = chain_of({9, 1}, {1e9, 0}, {1e6, 10e9});
  StageTask task{.devices = 4, .objective = StageObjective::kMax, .link_gbps = {8}, .replicate = true};
  const StagePartition plan = partition_stages(profile, task);
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.stages[0].replicas, 3);
  EXPECT_EQ(plan.stages[0].device, 0);
  EXPECT_EQ(plan.stages[1].device, 3);
  EXPECT_DOUBLE_EQ(plan.stages[0].compute_seconds, 3);
  EXPECT_DOUBLE_EQ(plan.stages[0].synchronise_seconds, 2 * 2.0 / 3 * 1e-3);
  EXPECT_EQ(plan.stages[0].in_flight, 2);
  EXPECT_EQ(plan.max_stage_seconds, 3);
  // Without parameters, data parallelism alone is best.
  EXPECT_EQ(partition_stages(chain_of({9, 1}, {1e9, 0}), task).stages.size(), 1U);
  // More devices than nodes are no obstacle.
  task.devices = 64;
  EXPECT_TRUE(partition_stages(profile, task).feasible);
}

TEST(StagePartition, TakesWhatCostsNothing) {
  const StagePartition plan = partition_stages(chain_of({0, 0, 0}), {.devices = 2, .objective = StageObjective::kMax});
  EXPECT_TRUE(plan.feasible);
  EXPECT_EQ(plan.max_stage_seconds, 0);
  EXPECT_EQ(plan.optimality_gap, 0);
  EXPECT_EQ(partition_stages(chain_of({5}), {.devices = 1}).max_stage_seconds, 5);
}

TEST(StagePartition, StaysFiniteAtItsLimits) {
  std::vector<double> most(10, kMostNodeSeconds);
  std::vector<double> bytes(10, kMostNodeBytes);
  for (const bool replicate : {false, true}) {
    const StagePartition plan = partition_stages(chain_of(most, bytes, bytes, bytes), {.devices = 10,
                                                                                       .objective = StageObjective::kSum,
                                                                                       .link_gbps = {kLeastLinkGbps},
                                                                                       .speeds = std::vector<double>(10, kLeastSpeed),
                                                                                       .replicate = replicate});
    ASSERT_TRUE(plan.feasible);
    EXPECT_TRUE(std::isfinite(plan.max_stage_seconds));
  }
}

TEST(StagePartition, RefusesTasksThatMakeNoSense) {
  const Profile profile = chain_of({1, 2, 3});
  const auto refused = [&](const StageTask& task, const std::vector<std::string>& parts) {
    expect_error(ErrorCode::kUsage, parts, [&] { partition_stages(profile, task); });
  };
  refused({.devices = 0}, {"0 devices, expected 1 to 1024"});
  refused({.devices = -3}, {"-3 devices"});
  refused({.devices = 2000}, {"2000 devices"});
  refused({.devices = 2, .link_gbps = {0}}, {"bandwidth", "link 0 is 0"});
  refused({.devices = 2, .link_gbps = {-1}}, {"is -1"});
  refused({.devices = 2, .link_gbps = {std::nan("")}}, {"is nan"});
  refused({.devices = 2, .link_gbps = {INFINITY}}, {"is inf"});
  refused({.devices = 3, .link_gbps = {1, 2, 3}}, {"3 link bandwidths for 3 devices, expected 1 or 2"});
  refused({.devices = 2, .link_gbps = {}}, {"0 link bandwidths"});
  refused({.devices = 1, .link_gbps = {}}, {"0 link bandwidths"});
  refused({.devices = 2, .speeds = {1}}, {"1 speeds for 2 devices"});
  refused({.devices = 2, .speeds = {1, 0}}, {"device 1 is 0"});
  refused({.devices = 2, .memory_bytes = -1}, {"memory of -1 bytes"});
  refused({.devices = 2, .memory_bytes = std::nan("")}, {"memory of nan"});
  refused({.devices = 2, .speeds = {1, 2}, .replicate = true}, {"equal devices"});
  Profile broken = profile;
  broken.nodes[0].forward_seconds = std::nan("");
  expect_error(ErrorCode::kMalformed, {"n0"}, [&] { partition_stages(broken, {.devices = 2}); });
  expect_error(ErrorCode::kUsage, {"replication over 1000 devices is searched for up to 100 nodes, and chain has 101"},
               [] { partition_stages(chain_of(std::vector<double>(101, 1)), {.devices = 1000, .replicate = true}); });
}

TEST(StagePartition, NamesItsObjectivesAndRules) {
  for (const auto objective : {StageObjective::kCompute, StageObjective::kMax, StageObjective::kSum})
    EXPECT_EQ(stage_objective_from(name_of(objective)), objective);
  for (const auto rule : {MemoryRule::kOneForwardOneBackward, MemoryRule::kStash, MemoryRule::kSum})
    EXPECT_EQ(memory_rule_from(name_of(rule)), rule);
  expect_error(ErrorCode::kUsage, {"\"maximum\" is unknown", "compute"}, [] { stage_objective_from("maximum"); });
  expect_error(ErrorCode::kUsage, {"\"1f1\" is unknown; did you mean \"1f1b\"?"}, [] { memory_rule_from("1f1"); });
}

}  // namespace
}  // namespace millrace
