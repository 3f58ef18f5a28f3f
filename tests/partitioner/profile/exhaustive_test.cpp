// Thousands of small profiles, each solved by trying everything: the planner must find the same time, the same memory among
// the fastest and the same traffic among those, and the same reason when nothing fits.
#include <algorithm>
#include <limits>
#include <optional>
#include <random>

#include "partitioner/profile/stage_partition.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Best {
  double seconds = kInfinity;
  double memory = kInfinity;        // of the fullest device, among the fastest
  double traffic = kInfinity;       // among those
  double least_memory = kInfinity;  // of any way, fitting or not
};

// Every sequence of growing closed sets, every number of replicas, no other cleverness.
class Everything {
 public:
  Everything(const Profile& profile, const StageTask& task) : profile_(profile), task_(task) {}

  Best search(int64_t devices) {
    best_ = Best{};
    devices_ = devices;
    ways_.clear();
    extend(0, 0, 0, 0, 0);
    for (const Way& way : ways_) best_.seconds = std::min(best_.seconds, way.seconds);
    const auto fast = [&](const Way& way) { return way.seconds <= best_.seconds + 1e-12; };
    for (const Way& way : ways_)
      if (fast(way)) best_.memory = std::min(best_.memory, way.memory);
    for (const Way& way : ways_)
      if (fast(way) && way.memory == best_.memory) best_.traffic = std::min(best_.traffic, way.traffic);
    return best_;
  }

 private:
  struct Way {
    double seconds, memory, traffic;
  };

  bool closed(uint64_t set) const {
    return std::all_of(profile_.edges.begin(), profile_.edges.end(),
                       [&](const ProfileEdge& edge) { return (set >> edge.to & 1) == 0 || (set >> edge.from & 1) != 0; });
  }
  double crossing(uint64_t set) const {
    double bytes = 0;
    for (size_t node = 0; node < profile_.nodes.size(); ++node) {
      bool needed = false;
      for (const ProfileEdge& edge : profile_.edges)
        needed = needed || (edge.from == static_cast<int64_t>(node) && (set >> edge.to & 1) == 0);
      if ((set >> node & 1) != 0 && needed) bytes += profile_.nodes[node].out_bytes;
    }
    return bytes;
  }
  double bytes_per_second(int64_t link) const {
    return (task_.link_gbps.size() == 1 ? task_.link_gbps[0] : task_.link_gbps[static_cast<size_t>(link)]) / 8 * 1e9;
  }

  void extend(uint64_t set, int64_t used, double seconds, double memory, double traffic) {
    const uint64_t all = (uint64_t{1} << profile_.nodes.size()) - 1;
    if (used == devices_) {
      best_.least_memory = std::min(best_.least_memory, memory);
      if (task_.memory_bytes == 0 || memory <= task_.memory_bytes) ways_.push_back({seconds, memory, traffic});
      return;
    }
    for (uint64_t more = 1; more <= all; ++more) {
      const uint64_t next = set | more;
      if ((set & more) != 0 || !closed(next)) continue;
      for (int64_t replicas = 1; replicas <= (task_.replicate ? devices_ - used : 1); ++replicas) {
        if (used + replicas == devices_ && next != all) continue;  // nobody is left for the rest
        double compute = 0, parameters = 0, activations = 0;
        for (size_t node = 0; node < profile_.nodes.size(); ++node) {
          if ((more >> node & 1) == 0) continue;
          compute += profile_.nodes[node].forward_seconds + profile_.nodes[node].backward_seconds;
          parameters += profile_.nodes[node].parameter_bytes;
          activations += profile_.nodes[node].activation_bytes;
        }
        const auto m = static_cast<double>(replicas);
        double cost = compute / (task_.speeds.empty() ? 1 : task_.speeds[static_cast<size_t>(used)]) / m;
        if (replicas > 1) cost = std::max(cost, 2 * (m - 1) / m * parameters / bytes_per_second(0));
        double transfers = 0;
        if (set != 0) transfers += 2 * crossing(set) / bytes_per_second(used - 1);
        if (next != all) transfers += 2 * crossing(next) / bytes_per_second(used + replicas - 1);
        if (task_.objective == StageObjective::kMax) cost = std::max(cost, transfers);
        if (task_.objective == StageObjective::kSum) cost += transfers;
        const int64_t left = devices_ - used;
        const auto flight = static_cast<double>(left / replicas + (left % replicas != 0 ? 1 : 0));
        double held = 2 * parameters + activations;
        if (task_.memory_rule == MemoryRule::kOneForwardOneBackward) held = 2 * parameters + flight * activations;
        if (task_.memory_rule == MemoryRule::kStash) held = (flight + 1) * parameters + flight * activations;
        const double moved = (set == 0 ? 0 : 2 * crossing(set)) + 2 * (m - 1) * parameters;
        extend(next, used + replicas, std::max(seconds, cost), std::max(memory, held), traffic + moved);
      }
    }
  }

  const Profile& profile_;
  const StageTask& task_;
  int64_t devices_ = 0;
  Best best_;
  std::vector<Way> ways_;
};

class RandomTasks {
 public:
  explicit RandomTasks(uint32_t seed) : random_(seed) {}

  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint32_t>(bound)); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }

  // Small whole numbers, so that ties are common.
  Profile profile(bool branches, int64_t most) {
    Profile made;
    made.origin = "random";
    const int64_t nodes = 1 + below(most);
    const int64_t range = chance(2) ? 4 : 1000;
    for (int64_t i = 0; i < nodes; ++i)
      made.nodes.push_back({fmt::format("n{}", i), "", static_cast<double>(below(range)), static_cast<double>(below(range)),
                            static_cast<double>(below(range)) * 1e9 / 8, static_cast<double>(below(range)) * 1e8,
                            static_cast<double>(below(range)) * 1e8});
    for (int64_t from = 0; from < nodes; ++from)
      for (int64_t to = from + 1; to < nodes; ++to)
        if (branches ? chance(2) : to == from + 1) made.edges.push_back({from, to});
    return made;
  }

  StageTask task(int64_t most_devices) {
    StageTask made;
    made.devices = 1 + below(most_devices);
    made.exactly = chance(2);
    made.objective = static_cast<StageObjective>(below(3));
    made.memory_rule = static_cast<MemoryRule>(below(3));
    made.replicate = chance(4);
    made.link_gbps = {std::vector<double>{0.5, 1, 2, 8}[static_cast<size_t>(below(4))]};
    if (!made.replicate && chance(2)) {
      for (int64_t d = 0; d < made.devices; ++d) made.speeds.push_back(std::vector<double>{0.5, 1, 2, 3}[static_cast<size_t>(below(4))]);
    }
    if (!made.replicate && made.devices > 1 && chance(3)) {
      made.link_gbps.clear();
      for (int64_t d = 1; d < made.devices; ++d) made.link_gbps.push_back(std::vector<double>{0.5, 1, 2}[static_cast<size_t>(below(3))]);
    }
    return made;
  }

 private:
  std::mt19937 random_;
};

bool differ(const std::vector<double>& values) { return std::ranges::adjacent_find(values, std::not_equal_to<>()) != values.end(); }

// Any of the devices may be left out, not the last ones alone.
bool picks(const StageTask& task) { return !task.exactly && differ(task.speeds) && !differ(task.link_gbps); }

Best best_over_counts(const Profile& profile, const StageTask& task, int64_t& winner) {
  Everything everything(profile, task);
  Best best;
  const auto consider = [&](int64_t count, const Best& found) {
    best.least_memory = std::min(best.least_memory, found.least_memory);
    const auto rank = [](const Best& b) { return std::tuple(b.memory, b.traffic); };
    const bool faster = found.seconds < best.seconds - 1e-12;
    if (faster || (found.seconds <= best.seconds + 1e-12 && found.seconds < kInfinity && rank(found) < rank(best))) {
      const double least = best.least_memory;
      best = found;
      best.least_memory = least;
      winner = count;
    }
  };
  if (!picks(task)) {
    for (int64_t count = task.exactly ? task.devices : 1; count <= task.devices; ++count) consider(count, everything.search(count));
    return best;
  }
  for (uint32_t chosen = 1; chosen < 1U << task.devices; ++chosen) {
    StageTask some = task;
    some.speeds.clear();
    for (int64_t d = 0; d < task.devices; ++d)
      if ((chosen >> d & 1) != 0) some.speeds.push_back(task.speeds[static_cast<size_t>(d)]);
    some.link_gbps.resize(1);
    const auto count = static_cast<int64_t>(some.speeds.size());
    if (count <= profile.size()) consider(count, Everything(profile, some).search(count));
  }
  return best;
}

void expect_consistent(const Profile& profile, const StageTask& task, const StagePartition& plan) {
  std::vector<int> seen(profile.nodes.size(), 0);
  int64_t device = 0;
  int64_t last = -1;
  double slowest = 0;
  for (const Stage& stage : plan.stages) {
    ASSERT_FALSE(stage.nodes.empty());
    EXPECT_EQ(stage.first, profile.nodes[static_cast<size_t>(stage.nodes.front())].name);
    EXPECT_EQ(stage.last, profile.nodes[static_cast<size_t>(stage.nodes.back())].name);
    if (picks(task)) {
      EXPECT_GT(stage.device, last);
      last = stage.device;
    } else {
      EXPECT_EQ(stage.device, device);
    }
    device += stage.replicas;
    slowest = std::max(slowest, stage.seconds);
    for (const int64_t node : stage.nodes) ++seen[static_cast<size_t>(node)];
    for (const ProfileEdge& edge : profile.edges)  // nothing runs before what it depends on
      if (std::count(stage.nodes.begin(), stage.nodes.end(), edge.to) != 0) {
        EXPECT_EQ(seen[static_cast<size_t>(edge.from)], 1);
      }
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  if (task.exactly) {
    EXPECT_EQ(device, task.devices);
  }
  EXPECT_LE(device, task.devices);
  EXPECT_EQ(slowest, plan.max_stage_seconds);
  EXPECT_LE(plan.lower_bound_seconds, plan.max_stage_seconds);
}

int64_t smallest_by_trying(const Profile& profile, StageTask task) {
  task.speeds.clear();
  task.link_gbps = {1};
  const int64_t most = task.replicate ? 6 : profile.size();
  for (int64_t count = 1; count <= most; ++count)
    if (Everything(profile, task).search(count).least_memory <= task.memory_bytes) return count;
  return 0;
}

void compare(const Profile& profile, const StageTask& task, int& feasible, int& infeasible) {
  const StagePartition plan = partition_stages(profile, task);
  int64_t devices = 0;
  const Best best = best_over_counts(profile, task, devices);
  ASSERT_EQ(plan.feasible, best.seconds < kInfinity) << plan.reason.text;
  if (!plan.feasible) {
    ++infeasible;
    EXPECT_FALSE(plan.reason.text.empty());
    if (plan.reason.resource == "nodes") {
      EXPECT_EQ(plan.reason.missing, static_cast<double>(task.devices - profile.size()));
    } else {
      EXPECT_EQ(plan.reason.resource, "memory_bytes");
      EXPECT_NEAR(plan.reason.missing, best.least_memory - task.memory_bytes, 1e-3);
      EXPECT_GE(plan.reason.device, 0);
    }
    if (task.memory_bytes > 0 && (!task.replicate || plan.reason.smallest_count <= 5)) {
      EXPECT_EQ(plan.reason.smallest_count, smallest_by_trying(profile, task)) << plan.reason.text;
    }
    return;
  }
  ++feasible;
  expect_consistent(profile, task, plan);
  EXPECT_NEAR(plan.max_stage_seconds, best.seconds, 1e-9 * (1 + best.seconds));
  double memory = 0;
  double traffic = 0;
  for (const Stage& stage : plan.stages) {
    memory = std::max(memory, stage.memory_bytes);
    traffic += 2 * stage.in_bytes + 2 * static_cast<double>(stage.replicas - 1) * stage.parameter_bytes;
  }
  EXPECT_NEAR(memory, best.memory, 1e-3);
  EXPECT_NEAR(traffic, best.traffic, 1e-3);
}

void compare_many(uint32_t seed, int rounds, bool branches, int64_t most_nodes, int64_t most_devices) {
  RandomTasks random(seed);
  int feasible = 0;
  int infeasible = 0;
  for (int round = 0; round < rounds && !testing::Test::HasFatalFailure(); ++round) {
    const Profile profile = random.profile(branches, most_nodes);
    StageTask task = random.task(most_devices);
    if (random.chance(2)) {
      // Near what is needed, so that it binds and often does not do.
      int64_t devices = 0;
      const double least = best_over_counts(profile, task, devices).least_memory;
      if (least > 0 && least < kInfinity)
        task.memory_bytes = std::max(1.0, least * std::vector<double>{0.8, 0.99, 1, 1.2}[static_cast<size_t>(random.below(4))]);
    }
    SCOPED_TRACE(fmt::format("round {}", round));
    compare(profile, task, feasible, infeasible);
  }
  EXPECT_GT(feasible, rounds / 3);
  EXPECT_GT(infeasible, rounds / 20);
}

TEST(StagePartition, OfChainsIsTheBestOfAllWays) { compare_many(1, 20'000, false, 8, 4); }
TEST(StagePartition, OfGraphsIsTheBestOfAllWays) { compare_many(2, 8'000, true, 7, 4); }
TEST(StagePartition, OverManyDevicesIsTheBestOfAllWays) { compare_many(3, 2'000, false, 9, 6); }

}  // namespace
}  // namespace millrace
