// `millrace plan --profile`: the JSON that scripts rely on, the table for people, and what is refused.
#include "deploy/command/plan/profile_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/source_folder.h"

namespace millrace {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string fixture(const std::string& name) { return std::string(MILLRACE_SOURCE_DIR) + "/tests/partitioner/profile/fixtures/" + name; }

struct Printed {
  int status = 0;
  std::string output, errors;
};
Printed run(const ProfilePlanFlags& flags, bool as_json) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Printed printed;
  printed.status = plan_from_profile(flags, as_json);
  printed.output = testing::internal::GetCapturedStdout();
  printed.errors = testing::internal::GetCapturedStderr();
  return printed;
}

TEST(ProfilePlan, JsonHoldsWhatScriptsRelyOn) {
  const ProfilePlanFlags flags{.profile = fixture("vgg16.fine.csv"), .devices = 4, .objective = "max", .link_gbps = 10, .memory_gb = 200};
  const Printed printed = run(flags, true);
  EXPECT_EQ(printed.status, 0);
  EXPECT_EQ(printed.errors, "");
  const json plan = json::parse(printed.output);
  for (const char* key : {"model", "strategy", "feasible", "reason", "objective", "max_stage_seconds", "bottleneck", "idle_fraction",
                          "lower_bound_seconds", "optimality_gap", "solve_seconds", "stages", "devices", "links", "left_out", "origin"})
    EXPECT_TRUE(plan.contains(key)) << key;
  EXPECT_EQ(plan["strategy"], "profile");
  EXPECT_EQ(plan["feasible"], true);
  EXPECT_EQ(plan["reason"], "");
  EXPECT_EQ(plan["optimality_gap"], 0.0);
  EXPECT_EQ(plan["cuts"], "chain");
  EXPECT_NEAR(plan["max_stage_seconds"].get<double>(), 0.381063, 1e-9);
  ASSERT_EQ(plan["stages"].size(), 4U);
  ASSERT_EQ(plan["devices"].size(), 4U);
  ASSERT_EQ(plan["links"].size(), 3U);
  double slowest = 0;
  for (const json& stage : plan["stages"]) {
    slowest = std::max(slowest, stage["seconds"].get<double>());
    EXPECT_EQ(stage["first"], stage["nodes"].front());
    EXPECT_EQ(stage["last"], stage["nodes"].back());
  }
  EXPECT_EQ(slowest, plan["max_stage_seconds"].get<double>());
  EXPECT_EQ(plan["bottleneck"], json({{"kind", "device"}, {"index", 0}}));
  for (size_t link = 0; link < 3; ++link) {
    EXPECT_EQ(plan["links"][link]["from"], link);
    EXPECT_EQ(plan["links"][link]["to"], link + 1);
    EXPECT_EQ(plan["links"][link]["forward_bits"], 8 * plan["stages"][link]["out_bytes"].get<int64_t>());
    EXPECT_EQ(plan["stages"][link]["out_bytes"], plan["stages"][link + 1]["in_bytes"]);
    // There and back.
    EXPECT_NEAR(plan["stages"][link]["out_seconds"].get<double>(), 16 * plan["stages"][link]["out_bytes"].get<double>() / 10e9, 1e-12);
  }
  const json& device = plan["devices"][0];
  EXPECT_NEAR(device["memory_fraction"].get<double>(), device["memory_bytes"].get<double>() / 200e9, 1e-12);
}

TEST(ProfilePlan, JsonOfReplicasNamesEveryDevice) {
  const ProfilePlanFlags flags{.profile = fixture("vgg16.graph.txt"), .devices = 9, .objective = "max", .link_gbps = 10, .replicate = true};
  const json plan = json::parse(run(flags, true).output);
  EXPECT_EQ(plan["cuts"], "antichains");
  ASSERT_EQ(plan["stages"].size(), 2U);
  EXPECT_EQ(plan["stages"][0]["replicas"], 8);
  ASSERT_EQ(plan["devices"].size(), 9U);
  for (size_t d = 0; d < 9; ++d) EXPECT_EQ(plan["devices"][d]["index"], d);
  EXPECT_EQ(plan["devices"][7]["stage"], 0);
  EXPECT_EQ(plan["devices"][8]["stage"], 1);
  EXPECT_EQ(plan["links"], json::array({plan["links"][0]}));
  EXPECT_EQ(plan["links"][0]["from"], 7);
  EXPECT_EQ(plan["left_out"]["inputs"], json::array({"node1"}));
}

TEST(ProfilePlan, TableSaysWhatLimitsAndWhereNumbersAreFrom) {
  ProfilePlanFlags flags{.profile = fixture("vgg16.graph.txt"), .devices = 8};
  std::string table = run(flags, false).output;
  EXPECT_THAT(table, HasSubstr("40 nodes in 8 stages on 8 devices"));
  EXPECT_THAT(table, HasSubstr("times are measured; transfers, synchronisation and memory are modelled"));
  EXPECT_THAT(table, HasSubstr("slowest stage  159.531 ms: 6.268 micro-batches/s"));
  EXPECT_THAT(table, HasSubstr("all of it node4: no cut divides one node"));
  EXPECT_THAT(table, HasSubstr("no --link-gbps was given"));
  EXPECT_THAT(table, HasSubstr("beware"));
  EXPECT_THAT(table, HasSubstr("node1: reading data (17.972 ms)"));
  EXPECT_THAT(table, HasSubstr("nothing is faster in this model"));
  flags.objective = "max";
  flags.link_gbps = 10;
  flags.devices = 16;
  table = run(flags, false).output;
  EXPECT_THAT(table, HasSubstr("the transfers of node12 to node25, most of all over the link from device 0 to 1: 411.0 MB there and back"));
  EXPECT_THAT(table, HasSubstr("2 of the 16 devices would be faster: 381.063 ms (--at-most)"));
  EXPECT_THAT(table, Not(HasSubstr("beware")));
  flags.at_most = true;
  EXPECT_THAT(run(flags, false).output, HasSubstr("40 nodes in 2 stages on 2 of 16 devices"));
  EXPECT_THAT(run({.profile = fixture("gnmt.graph.txt"), .devices = 1}, false).output,
              HasSubstr("node9, node13, node18, node25 and 4 more"));
  EXPECT_THAT(run({.profile = fixture("resnet18.graph.txt"), .devices = 8}, false).output, HasSubstr("Some stages hold one branch"));
}

TEST(ProfilePlan, SaysWhyNothingFits) {
  ProfilePlanFlags flags{.profile = fixture("vgg16.fine.csv"), .devices = 2, .memory_gb = 1};
  Printed printed = run(flags, false);
  EXPECT_EQ(printed.status, 3);
  EXPECT_EQ(printed.output, "");
  EXPECT_THAT(printed.errors, HasSubstr("millrace: infeasible: device 1 would need 10.86 GB for node5 to node41"));
  printed = run(flags, true);
  EXPECT_EQ(printed.status, 3);
  const json plan = json::parse(printed.output);
  EXPECT_EQ(plan["feasible"], false);
  EXPECT_THAT(plan["reason"].get<std::string>(), HasSubstr("device 1 would need"));
  EXPECT_EQ(plan["shortage"]["device"], 1);
  EXPECT_EQ(plan["shortage"]["resource"], "memory_bytes");
  EXPECT_EQ(plan["shortage"]["missing"], 9856197956);
  EXPECT_FALSE(plan.contains("max_stage_seconds"));
  flags = {.profile = fixture("gnmt.blocks.csv"), .devices = 16};
  printed = run(flags, false);
  EXPECT_EQ(printed.status, 3);
  EXPECT_THAT(printed.errors, HasSubstr("16 devices need a node each at least"));
  EXPECT_THAT(printed.errors, HasSubstr("--at-most"));
}

TEST(ProfilePlan, RefusesFlagsByName) {
  const auto refused = [](const std::string& part, const std::function<void(ProfilePlanFlags&)>& change) {
    ProfilePlanFlags flags{.profile = fixture("gnmt.blocks.csv"), .devices = 3};
    change(flags);
    try {
      plan_from_profile(flags, true);
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_EQ(exit_status_of(error.code()), 2) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  refused("--profile", [](auto& flags) { flags.profile = ""; });
  refused("--devices is missing", [](auto& flags) { flags.devices.reset(); });
  refused("--devices: 0 is below 1", [](auto& flags) { flags.devices = 0; });
  refused("--devices: -2 is below 1", [](auto& flags) { flags.devices = -2; });
  refused("--devices: 2000 is above 1024", [](auto& flags) { flags.devices = 2000; });
  refused("--objective \"fastest\" is unknown", [](auto& flags) { flags.objective = "fastest"; });
  refused("--link-gbps: 0 is not above 0", [](auto& flags) { flags.link_gbps = 0; });
  refused("--link-gbps: nan", [](auto& flags) { flags.link_gbps = std::nan(""); });
  refused("--link-gbps: 1e-300", [](auto& flags) { flags.link_gbps = 1e-300; });
  refused("--memory-gb: -1", [](auto& flags) { flags.memory_gb = -1; });
  refused("--memory-gb: inf", [](auto& flags) { flags.memory_gb = INFINITY; });
  refused("--memory-rule \"1f1\" is unknown; did you mean \"1f1b\"?", [](auto& flags) { flags.memory_rule = "1f1"; });
  refused("--speeds: 2 given for 3 devices", [](auto& flags) { flags.speeds = {1, 2}; });
  refused("--speeds: 0 is not from", [](auto& flags) { flags.speeds = {1, 0, 1}; });
  refused("--replicate and --speeds exclude each other", [](auto& flags) {
    flags.replicate = true;
    flags.speeds = {1, 1, 1};
  });
}

TEST(ProfilePlan, PrintsJsonWhateverTheProfileHolds) {
  // Names that are no UTF-8, no time at all, sums beyond any integer.
  const std::string path = testing::TempDir() + "/odd_profile.csv";
  std::ofstream(path)
      << "name,fwd_us,bwd_us,out_bytes,param_bytes,act_bytes\n\xff\xfe,0,0,999999999999999,999999999999999,999999999999999\n"
         "b,0,0,1,999999999999999,999999999999999\n";
  for (const char* objective : {"compute", "max"}) {
    const ProfilePlanFlags flags{.profile = path, .devices = 1, .objective = objective};
    const json plan = json::parse(run(flags, true).output);
    EXPECT_EQ(plan["max_stage_seconds"], 0.0);
    EXPECT_TRUE(plan["micro_batches_per_second"].is_null());
    EXPECT_THAT(run(flags, false).output, HasSubstr("nothing takes time"));
  }
}

}  // namespace
}  // namespace millrace
