// The measured fixtures: the optima that an independent solver found (reference_optima.py), in little time.
#include <charconv>
#include <map>
#include <sstream>

#include "core/base/files.h"
#include "partitioner/profile/linearise.h"
#include "partitioner/profile/stage_partition.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// name -> lines of the table
std::map<std::string, std::vector<std::vector<std::string>>> reference_optima() {
  std::map<std::string, std::vector<std::vector<std::string>>> table;
  const std::string text = read_text(fixture("").parent_path().parent_path() / "reference_optima.csv");
  const std::vector<std::string> lines = split(text, '\n');
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], ',');
    table[fields.at(0)].push_back(fields);
  }
  return table;
}

StageTask task_of(const std::vector<std::string>& fields) {
  StageTask task{.devices = std::stoll(fields.at(1)),
                 .exactly = fields.at(2) == "exactly",
                 .objective = stage_objective_from(fields.at(3)),
                 .link_gbps = {std::stod(fields.at(4))}};
  for (const std::string& speed : split(fields.at(5), ' ')) task.speeds.push_back(std::stod(speed));
  if (!fields.at(6).empty()) task.memory_bytes = std::stod(fields.at(6)) * 1e9;
  return task;
}

TEST(ReferenceOptima, AreFound) {
  const auto table = reference_optima();
  EXPECT_EQ(table.size(), 11U);
  int infeasible = 0;
  for (const auto& [name, lines] : table) {
    const Profile profile = load_profile(fixture(name));
    for (const auto& fields : lines) {
      SCOPED_TRACE(testing::PrintToString(fields));
      const StagePartition plan = partition_stages(profile, task_of(fields));
      const std::string& expected = fields.at(7);
      ASSERT_EQ(plan.feasible, expected != "infeasible") << plan.reason.text;
      infeasible += plan.feasible ? 0 : 1;
      if (plan.feasible) {
        EXPECT_NEAR(plan.max_stage_seconds, std::stod(expected), 1e-9);
        EXPECT_EQ(plan.optimality_gap, 0);
      }
    }
  }
  EXPECT_GT(infeasible, 20);
}

TEST(ReferenceOptima, OfAGraphAreNeverSlowerThanThoseOfItsOrderAndSometimesFaster) {
  bool faster = false;
  for (const char* name : {"gnmt", "resnet18", "squeezenet1_0", "vgg16"}) {
    const Profile graph = load_profile(fixture(std::string(name) + ".graph.txt"));
    for (const int64_t devices : {4, 8, 16})
      for (const StageObjective objective : {StageObjective::kCompute, StageObjective::kMax, StageObjective::kSum}) {
        StageTask task{.devices = devices, .objective = objective};
        const StagePartition all = partition_stages(graph, task);
        EXPECT_EQ(all.cuts, CutKind::kAntichains);
        const StagePartition chain = partition_stages(linearised(graph), task);
        EXPECT_EQ(chain.cuts, CutKind::kChain);
        EXPECT_LE(all.max_stage_seconds, chain.max_stage_seconds + 1e-12);
        faster = faster || all.max_stage_seconds < chain.max_stage_seconds - 1e-6;
        // The graph again, with too many cuts to look at them all: the chain's answer, and a bound on what that may cost.
        task.most_cuts = 1;
        const StagePartition ordered = partition_stages(graph, task);
        EXPECT_EQ(ordered.cuts, CutKind::kLinearised);
        EXPECT_NEAR(ordered.max_stage_seconds, chain.max_stage_seconds, 1e-12);
        EXPECT_LE(ordered.lower_bound_seconds, all.max_stage_seconds + 1e-12);
        EXPECT_GE(ordered.optimality_gap, 0);
        EXPECT_LT(ordered.optimality_gap, 1);
      }
  }
  EXPECT_TRUE(faster);
}

}  // namespace
}  // namespace millrace
