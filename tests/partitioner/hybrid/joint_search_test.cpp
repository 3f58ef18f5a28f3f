// Cuts and homes against a reference that tries every cut and every amount of parameters over every link (tiny_ring.h).
#include "partitioner/hybrid/joint_search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>

#include "core/plan/schedule.h"
#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/hybrid/ring_solver.h"
#include "tests/partitioner/hybrid/tiny_models.h"
#include "tests/partitioner/hybrid/tiny_ring.h"

namespace millrace {
namespace {

using testing_support::DrawnCostModel;
using testing_support::TinyInstances;
using testing_support::TinyRing;

// How many rings to draw: a whole campaign where the environment asks for one (drawn_rings.py, which reads what the tests record).
int drawn_rings(int usual) {
  const char* asked = std::getenv("MILLRACE_DRAWN_RINGS");
  return asked != nullptr ? std::atoi(asked) : usual;
}

TEST(JointSearch, FindsWhatTryingAllCutsAndHomesFinds) {
  TinyInstances random(1801);
  int feasible = 0;
  int infeasible = 0;
  int moved = 0;
  int tight = 0;
  int with_engines = 0;  // of those feasible
  double widest = 0;
  const int rings = drawn_rings(1200);
  for (int i = 0; i < rings; ++i) {
    const TinyRing ring(random, false);
    tight += ring.tight ? 1 : 0;
    const RingSolution solution = RingSolver(ring.task, 1).solve();
    ASSERT_EQ(solution.feasible, ring.exists(TinyRing::kEndless)) << "ring " << i;
    if (!solution.feasible) {
      EXPECT_NE(solution.shortage.kind, Shortage::Kind::kNotDecided) << "ring " << i;
      ++infeasible;
      continue;
    }
    ++feasible;
    if (!solution.homes.remote.empty()) ++moved;
    // Places are few: the plan is as fast as any, and says so.
    EXPECT_NEAR(solution.period / solution.lower_bound, 1, 1e-7) << "ring " << i;
    widest = std::max(widest, solution.period / solution.lower_bound - 1);
    if (ring.each.front().dedicated) {
      ++with_engines;
      EXPECT_TRUE(ring.exists(solution.period * (1 + 1e-9))) << "ring " << i;
      EXPECT_FALSE(ring.exists(solution.lower_bound * (1 - 1e-9))) << "ring " << i;
    } else {
      EXPECT_NEAR(solution.period / ring.least(), 1, 1e-7) << "ring " << i;
    }
    for (size_t d = 0; d < solution.homes.used.size(); ++d) EXPECT_LE(solution.homes.used[d], ring.each[d].memory) << "ring " << i;
    // Nothing moves where nothing has to, and where links set the pace devices are as fast as they allow.
    EXPECT_TRUE(solution.homes.remote.empty() || !ring.exists_at_home(solution.period, 0.8)) << "ring " << i;
    EXPECT_FALSE(ring.exists(solution.compute_period * (1 - 3e-3), solution.period * (1 - 1e-9))) << "ring " << i;
    // The first plan found is no bound.
    const RingSolution quick = RingSolver(ring.task, 1).solve(Effort::kQuick);
    EXPECT_TRUE(quick.feasible) << "ring " << i;
    EXPECT_TRUE(ring.each.front().dedicated || quick.lower_bound <= ring.least() * (1 + 1e-9)) << "ring " << i;
  }
  EXPECT_GT(feasible, rings / 2);
  EXPECT_GT(infeasible, rings / 40);
  EXPECT_GT(moved, rings / 20);
  RecordProperty("rings", rings);
  RecordProperty("memory_tight", tight);
  RecordProperty("feasible", feasible);
  RecordProperty("infeasible_confirmed", infeasible);
  RecordProperty("parameters_moved", moved);
  RecordProperty("with_engines", with_engines);
  RecordProperty("widest_gap_of_exact", fmt::format("{:.3g}", widest));
}

TEST(JointSearch, WhereElementsDifferInSizeEveryChoiceIsGoneThrough) {
  TinyInstances random(1802);
  int feasible = 0;
  int infeasible = 0;
  int moved = 0;
  double widest = 0;
  const int rings = drawn_rings(300);
  for (int i = 0; i < rings; ++i) {
    const TinyRing ring(random, true);
    const RingSolution solution = RingSolver(ring.task, 1).solve();
    ASSERT_EQ(solution.feasible, ring.exists(TinyRing::kEndless)) << "ring " << i;
    if (!solution.feasible) {
      EXPECT_NE(solution.shortage.kind, Shortage::Kind::kNotDecided) << "ring " << i;
      ++infeasible;
      continue;
    }
    ++feasible;
    if (!solution.homes.remote.empty()) ++moved;
    EXPECT_NEAR(solution.period / solution.lower_bound, 1, 1e-7) << "ring " << i;
    widest = std::max(widest, solution.period / solution.lower_bound - 1);
    if (ring.each.front().dedicated) {
      EXPECT_TRUE(ring.exists(solution.period * (1 + 1e-9))) << "ring " << i;
      EXPECT_FALSE(ring.exists(solution.lower_bound * (1 - 1e-9))) << "ring " << i;
    } else {
      EXPECT_NEAR(solution.period / ring.least(), 1, 1e-7) << "ring " << i;
    }
    for (size_t d = 0; d < solution.homes.used.size(); ++d) EXPECT_LE(solution.homes.used[d], ring.each[d].memory) << "ring " << i;
  }
  EXPECT_GT(feasible, rings / 4);
  EXPECT_GT(infeasible, rings / 40);
  EXPECT_GT(moved, rings / 60);
  RecordProperty("rings", rings);
  RecordProperty("feasible", feasible);
  RecordProperty("infeasible_confirmed", infeasible);
  RecordProperty("parameters_moved", moved);
  RecordProperty("widest_gap_of_exact", fmt::format("{:.3g}", widest));
}

Model wide_model(TinyInstances& random) {
  Model model;
  model.name = "wide";
  model.input = {3, 2, 2};
  std::string last(kInputName);
  const auto add = [&](std::string name, Operation operation) {
    model.layers.push_back({.name = name, .operation = std::move(operation), .inputs = {last}});
    last = std::move(name);
  };
  for (int l = 0; l < 4; ++l) add("conv" + std::to_string(l), Conv2d{.out_channels = random.between(20, 40), .kernel_h = 1, .kernel_w = 1});
  add("pool", GlobalPool{});
  add("flat", Flatten{});
  add("fc", Dense{.out_features = 10});
  add("loss", SoftmaxCrossEntropy{});
  return model;
}

double weights_of(const Graph& graph) {
  double weights = 0;
  for (const LayerGroup& group : graph.groups()) {
    const Node& head = graph.node(group.head);
    weights += static_cast<double>(head.input_shapes[0].channels * head.output.channels);
  }
  return weights;
}

// Too many places to look at every one: the search shortens the period and raises the bound until they nearly meet.
TEST(JointSearch, OfManyPlacesThePeriodComesCloseToItsBound) {
  TinyInstances random(1804);
  int moved = 0;
  for (int i = 0; i < 12; ++i) {
    const Graph graph(wide_model(random));
    const double weights = weights_of(graph);
    const int64_t devices = random.between(4, 6);
    std::vector<std::unique_ptr<DrawnCostModel>> owned;
    PlanTask task;
    task.graph = &graph;
    task.cluster = uniform_cluster("drawn", devices);
    task.cluster.links = random.links(devices);
    task.options.micro_batch = 1;
    task.options.mini_batch = 16;
    for (int64_t d = 0; d < devices; ++d) {  // large and slow upstream, small and fast downstream
      const double share = 2.0 * static_cast<double>(devices - d) / static_cast<double>(devices * (devices + 1));
      owned.push_back(std::make_unique<DrawnCostModel>(
          DrawnCostModel::Settings{.seconds_per_pair = 1e-3 * random.real(0.5, 1.5) / static_cast<double>(1 + d),
                                   .memory = random.real(1.15, 1.5) * share * weights + 100}));
      task.models.push_back(owned.back().get());
    }
    const RingSolution solution = RingSolver(task, 1).solve();
    if (!solution.feasible) continue;
    moved += solution.homes.remote.empty() ? 0 : 1;
    EXPECT_NEAR(solution.period / solution.lower_bound, 1, 1e-5) << "ring " << i;
    const Chain chain(graph);
    const std::vector<Link> links = links_of(task.cluster);
    const SegmentLoads segments(chain, task, std::vector<double>(static_cast<size_t>(chain.groups()), 1), 1,
                                std::vector<int64_t>(task.models.size(), 1));
    const CutLoads loads(chain, 32);
    const bool may_stay =
        CutSearch(segments, loads, links, {}).feasible({solution.period, solution.period}, {.parameters = true, .share = 0.8});
    EXPECT_TRUE(solution.homes.remote.empty() || !may_stay) << "ring " << i;
  }
  EXPECT_GT(moved, 3);
}

// Two kinds of memory leave periods of which the finest look tells nothing. All that it tells is in the answer: the period is as short, and
// the bound as high, as it can show.
TEST(JointSearch, WhereSomePeriodsStayOpenBothEndsAreAsCloseAsLooksTell) {
  TinyInstances random(1806);
  int open = 0;
  for (int i = 0; i < 6; ++i) {
    const Graph graph(wide_model(random));
    const int64_t devices = random.between(4, 6);
    std::vector<std::unique_ptr<DrawnCostModel>> owned;
    PlanTask task;
    task.graph = &graph;
    task.cluster = uniform_cluster("drawn", devices);
    task.cluster.links = random.links(devices);
    task.options.micro_batch = 1;
    task.options.mini_batch = 16;
    for (int64_t d = 0; d < devices; ++d) {
      const double share = 2.0 * static_cast<double>(devices - d) / static_cast<double>(devices * (devices + 1));
      owned.push_back(std::make_unique<DrawnCostModel>(
          DrawnCostModel::Settings{.seconds_per_pair = 1e-3 * random.real(0.5, 1.5) / static_cast<double>(1 + d),
                                   .memory = random.real(1.05, 1.3) * share * weights_of(graph) + 100,
                                   .memory_name = random.chance(0.3) ? "other_bytes" : "memory_bytes"}));
      task.models.push_back(owned.back().get());
    }
    const RingSolution solution = RingSolver(task, 1).solve();
    if (!solution.feasible || solution.period < solution.lower_bound * (1 + 1e-3)) continue;
    ++open;
    const Chain chain(graph);
    const std::vector<Link> links = links_of(task.cluster);
    const int64_t window = default_windows(devices, task.options.alignment, 16).front();
    const double passes =
        static_cast<double>(parameter_passes_per_mini_batch({.alignment = task.options.alignment, .micro_batches = 16, .window = window})) /
        16;
    const SegmentLoads segments(chain, task, std::vector<double>(static_cast<size_t>(chain.groups()), 1), 1,
                                std::vector<int64_t>(task.models.size(), 1));
    const CutLoads loads(chain, 32);
    const CutSearch search(segments, loads, links, {});
    const JointSearch joint(segments, loads, links, search, {.bits_per_element = 32, .passes_per_sample = passes}, false);
    constexpr int64_t kFinest = 384;
    const double shorter = solution.period * (1 - 1e-4), longer = solution.lower_bound * (1 + 1e-4);
    EXPECT_NE(joint.at({shorter, shorter}, kFinest).verdict, JointAnswer::Verdict::kFound) << "ring " << i;
    EXPECT_NE(joint.at({longer, longer}, kFinest).verdict, JointAnswer::Verdict::kImpossible) << "ring " << i;
  }
  EXPECT_GT(open, 2);
}

// With few cells the walk over them still brackets what the walk over every place finds.
TEST(JointSearch, FewPlacesNeitherFindWhatIsNotThereNorRuleOutWhatIs) {
  TinyInstances random(1803);
  int decided = 0;
  for (int i = 0; i < 1500; ++i) {
    const TinyRing ring(random, false);
    const Chain chain(*ring.graph);
    const std::vector<Link> links = links_of(ring.task.cluster);
    const SegmentLoads segments(chain, ring.task, std::vector<double>(static_cast<size_t>(chain.groups()), 1), 1,
                                std::vector<int64_t>(ring.task.models.size(), 1));
    const CutLoads loads(chain, 32);
    const CutSearch search(segments, loads, links,
                           {.allow_empty = ring.task.options.allow_empty, .whole_layers = ring.task.options.strategy == Strategy::kLayer});
    const JointSearch joint(segments, loads, links, search, {.bits_per_element = 32, .passes_per_sample = 1.5},
                            ring.task.options.allow_empty);
    const double period = random.real(1e-3, 60e-3);
    const JointAnswer exact = joint.at({period, period}, 1000);
    const JointAnswer coarse = joint.at({period, period}, 1);
    ASSERT_TRUE(exact.every_place);
    ASSERT_NE(exact.verdict, JointAnswer::Verdict::kUndecided);
    if (coarse.verdict == JointAnswer::Verdict::kUndecided) continue;
    EXPECT_EQ(coarse.verdict, exact.verdict) << "ring " << i;
    if (!coarse.every_place) ++decided;
  }
  EXPECT_GT(decided, 100);
}

}  // namespace
}  // namespace millrace
