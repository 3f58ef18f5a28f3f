#include "partitioner/hybrid/cut_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "core/documents/catalogue.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"
#include "fpga/cost/generated_engines.h"
#include "partitioner/hybrid/lifetimes.h"
#include "partitioner/hybrid/pace_bound.h"
#include "partitioner/hybrid/ring_solver.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

using testing_support::DrawnCostModel;
using testing_support::TinyInstances;

// A drawn ring around a drawn network, and everything that searches it.
struct Instance {
  explicit Instance(TinyInstances& random)
      : graph(random.model()), chain(graph), rules{.allow_empty = random.chance(0.3), .whole_layers = random.chance(0.15)} {
    const int64_t devices = random.between(1, 4);
    const bool homogeneous = random.chance(0.3);
    const bool dedicated = random.chance(0.4);
    DrawnCostModel::Settings settings;
    for (int64_t d = 0; d < devices; ++d) {
      if (d == 0 || !homogeneous) {
        settings.seconds_per_pair = random.real(0.2e-3, 3e-3);
        settings.memory = random.chance(0.5) ? 1e9 : static_cast<double>(random.between(4, 30));
        settings.quantum = random.chance(0.2) ? 2 : 1;
        settings.dedicated = dedicated;
        settings.engines = static_cast<double>(random.between(2, 30));
        settings.dense_off_chip = random.chance(0.5);
      }
      owned.push_back(std::make_unique<DrawnCostModel>(settings));
      task.models.push_back(owned.back().get());
    }
    task.graph = &graph;
    task.cluster = uniform_cluster("drawn", devices);
    task.cluster.links = random.links(devices);
    task.options.allow_empty = rules.allow_empty;
    task.options.strategy = rules.whole_layers ? Strategy::kLayer : Strategy::kHybrid;
    task.options.micro_batch = 1;
    storage.parameters = random.chance(0.5);
    if (random.chance(0.2)) storage.share = random.real(0.5, 1);
    storage.spared_off_chip = random.chance(0.5);
    links = links_of(task.cluster);
    segments = new_segments();
    loads = std::make_unique<CutLoads>(chain, 32);
  }

  bool cut_allowed(size_t link, int64_t position, double seconds) const {
    if (seconds_on(links[link], loads->at(position)) > seconds) return false;
    const Cut cut = chain.cut_at(position);
    const bool boundary = cut.channel == 0 && cut.outputs == 0;
    if (rules.whole_layers) return boundary;
    const int64_t quantum = std::max(task.models[link]->channel_quantum(), task.models[link + 1]->channel_quantum());
    return boundary || quantum == 1 || (cut.channel % quantum == 0 && cut.outputs == 0);
  }

  // That have not been asked yet.
  std::unique_ptr<SegmentLoads> new_segments() const {
    return std::make_unique<SegmentLoads>(chain, task, activation_lifetimes(graph, {}), 1, std::vector<int64_t>(task.models.size(), 1));
  }

  bool stretch_allowed(int64_t from, int64_t to) const {
    if (from < to) return true;
    const Cut cut = chain.cut_at(from);
    return from == to && rules.allow_empty && cut.channel == 0 && cut.outputs == 0;
  }

  // Every way to cut, one after the other.
  bool exists(const Periods& periods) const {
    const std::function<bool(size_t, int64_t)> extend = [&](size_t device, int64_t from) {
      const auto d = static_cast<int64_t>(device);
      if (device + 1 == task.models.size())
        return stretch_allowed(from, chain.end()) && segments->fits(d, from, chain.end(), periods.compute, storage);
      for (int64_t to = from; to <= chain.end(); ++to)
        if (stretch_allowed(from, to) && cut_allowed(device, to, periods.link) && segments->fits(d, from, to, periods.compute, storage) &&
            extend(device + 1, to))
          return true;
      return false;
    };
    return extend(0, 0);
  }

  Graph graph;
  Chain chain;
  CutRules rules;
  PlanTask task;
  Storage storage;
  std::vector<std::unique_ptr<DrawnCostModel>> owned;
  std::vector<Link> links;
  std::unique_ptr<SegmentLoads> segments;
  std::unique_ptr<CutLoads> loads;
};

// What one walk has found out, and what walks for other periods have, answers every question as if nothing were known.
TEST(SegmentLoads, AnswersAreTheSameWithWhatWalksFound) {
  TinyInstances random(12);
  int64_t inside = 0;  // stretches that begin and end inside one layer
  for (int i = 0; i < 300; ++i) {
    const Instance instance(random);
    const SegmentLoads& loads = *instance.segments;
    const double period = random.real(0.5e-3, 10e-3);
    SegmentLoads::Found found(loads);
    for (int question = 0; question < 40; ++question) {
      const int64_t device = random.between(0, loads.devices() - 1);
      const int64_t at = random.between(0, instance.chain.end());
      const std::unique_ptr<SegmentLoads> unasked = instance.new_segments();
      const int64_t reach = unasked->reach(device, at, period, instance.storage);
      ASSERT_EQ(loads.reach(device, at, period, instance.storage, &found), reach) << "instance " << i;
      ASSERT_EQ(loads.reach_back(device, at, period, instance.storage, &found), unasked->reach_back(device, at, period, instance.storage));
      const SegmentLoads::Ends ends = unasked->ends(device, at, period, instance.storage),
                               again = loads.ends(device, at, period, instance.storage, &found);
      ASSERT_EQ(again.on_chip, ends.on_chip);
      ASSERT_EQ(again.off_chip, ends.off_chip);
      ASSERT_EQ(loads.fits(device, at, instance.chain.end(), period, instance.storage, &found),
                unasked->fits(device, at, instance.chain.end(), period, instance.storage));
      inside += at < reach && reach < instance.chain.end_of(instance.chain.group_at(at)) ? 1 : 0;
      // As a bisection comes closer.
      const double near = period * (1 + random.real(-0.2, 0.2) / static_cast<double>(1 + question));
      ASSERT_EQ(loads.reach(device, at, near, instance.storage), unasked->reach(device, at, near, instance.storage)) << "instance " << i;
      ASSERT_EQ(loads.reach_back(device, at, near, instance.storage), unasked->reach_back(device, at, near, instance.storage));
      // And a walk of its own, between two periods that are known.
      const double nearer = period + (near - period) / 2;
      SegmentLoads::Found other(loads);
      for (const int64_t from : {at, random.between(0, instance.chain.end())}) {
        ASSERT_EQ(loads.reach(device, from, nearer, instance.storage, &other), unasked->reach(device, from, nearer, instance.storage));
        ASSERT_EQ(loads.reach_back(device, from, nearer, instance.storage, &other),
                  unasked->reach_back(device, from, nearer, instance.storage));
      }
    }
  }
  EXPECT_GT(inside, 1000);
}

// Between two periods that lead to different positions it is known between which it lies.
// Of a grouped convolution only the smallest engine is counted, which may take more memory in a longer period: what is known of others says
// nothing.
TEST(SegmentLoads, AnswersDoNotDependOnOtherPeriodsOfGroupedConvolutions) {
  const Graph graph(find_model("alexnet-grouped"));
  const Chain chain(graph);
  const auto built = std::make_shared<const GeneratedEngines>(graph, /*slowest_clock_hz=*/200e6);
  const auto board =
      make_fpga_cost_model(parse_catalogue(fpga_catalogue_text(), "the boards").find("vc709"), {.wire = ElementType::kFixed16}, {}, built);
  PlanTask task;
  task.graph = &graph;
  task.cluster = uniform_cluster("vc709", 6);
  task.models.assign(6, board.get());
  task.options.accounting = Accounting::kFull;
  task.options.allow_empty = true;
  task.options.mini_batch = 128;
  const std::vector<double> lifetimes = activation_lifetimes(graph, {});
  const auto new_loads = [&] { return SegmentLoads(chain, task, lifetimes, /*micro_batch=*/1, std::vector<int64_t>(6, 1)); };
  const SegmentLoads loads = new_loads();
  int64_t further = 0;  // than in a longer period
  for (int64_t group = 2; group <= 6; ++group) {
    const int64_t from = chain.begin_of(group);
    for (const bool back : {true, false}) {
      int64_t longer = -1;
      for (double period = 6e-3; period > 1e-3; period /= 1.05) {
        const auto furthest = [&](const SegmentLoads& of) { return back ? of.reach_back(4, from, period) : of.reach(4, from, period); };
        const int64_t reached = furthest(loads);
        ASSERT_EQ(reached, furthest(new_loads())) << period << " from layer " << group << (back ? " back" : " on");
        further += longer >= 0 && (back ? reached < longer : reached > longer) ? 1 : 0;
        longer = reached;
      }
    }
  }
  EXPECT_GT(further, 0);
}

TEST(KnownReaches, LieBetweenThoseOfShorterAndLongerPeriods) {
  KnownReaches known;
  const KnownReaches::From from{.position = 7};
  known.add(from, 1e-3, 20);
  known.add(from, 2e-3, 20);
  known.add(from, 3e-3, 25);
  using Ends = std::pair<std::optional<int64_t>, std::optional<int64_t>>;
  const auto ends = [&](const KnownReaches::From& of, double period) {
    const KnownReaches::Between between = known.find(of, period);
    return Ends(between.shorter, between.longer);
  };
  EXPECT_EQ(ends(from, 0.9e-3), Ends(std::nullopt, 20));
  EXPECT_EQ(ends(from, 1.5e-3), Ends(20, 20));
  EXPECT_EQ(ends(from, 2.5e-3), Ends(20, 25));
  EXPECT_EQ(ends(from, 3e-3), Ends(25, 25));
  EXPECT_EQ(ends(from, 3.1e-3), Ends(25, std::nullopt));
  EXPECT_TRUE(known.find(from, 1.5e-3).is_known());
  for (const double period : {0.9e-3, 2.5e-3, 3.1e-3}) EXPECT_FALSE(known.find(from, period).is_known()) << period;
  const Ends nothing;
  EXPECT_EQ(ends({.position = 7, .back = true}, 1.5e-3), nothing);
  EXPECT_EQ(ends({.periods = 1, .position = 7}, 1.5e-3), nothing);
  EXPECT_EQ(ends({.position = 7, .storage = {.parameters = true}}, 1.5e-3), nothing);
}

// With memories never full and all weights on chip no plan is slower; where memory is no matter, the bound is the period.
TEST(PaceBound, NoPlanIsFaster) {
  TinyInstances random(13);
  int64_t tight = 0, apart = 0;
  for (int i = 0; i < 400; ++i) {
    Instance instance(random);
    instance.task.options.mini_batch = 4;
    const RingSolver solver(instance.task, 1);
    const RingSolution solution = solver.solve();
    if (!solution.feasible) continue;
    const PaceBound bound(instance.task, 1);
    ASSERT_FALSE(bound.rules_out(solution.period * (1 + 1e-9))) << "instance " << i;
    ++(bound.rules_out(solution.period / (1 + 1e-6)) ? tight : apart);
  }
  EXPECT_GT(tight, 100);
  EXPECT_GT(apart, 20);
}

TEST(CutSearch, FindsCutsExactlyWhenTryingThemAllDoes) {
  TinyInstances random(11);
  int64_t possible = 0;
  int64_t impossible = 0;
  for (int i = 0; i < 3000; ++i) {
    const Instance instance(random);
    const CutSearch search(*instance.segments, *instance.loads, instance.links, instance.rules);
    const Periods periods{random.real(0.5e-3, 30e-3), random.real(0.5e-3, 60e-3)};
    const auto cuts = search.cuts_at(periods, instance.storage);
    const bool exists = instance.exists(periods);
    ASSERT_EQ(cuts.has_value(), exists) << "instance " << i;
    EXPECT_EQ(search.feasible(periods, instance.storage), exists);
    ++(exists ? possible : impossible);
    if (!cuts) continue;
    int64_t from = 0;
    for (size_t d = 0; d < instance.task.models.size(); ++d) {
      const int64_t to = d < cuts->size() ? (*cuts)[d] : instance.chain.end();
      EXPECT_TRUE(instance.stretch_allowed(from, to));
      EXPECT_TRUE(d == cuts->size() || instance.cut_allowed(d, to, periods.link));
      EXPECT_TRUE(instance.segments->fits(static_cast<int64_t>(d), from, to, periods.compute, instance.storage));
      from = to;
    }
  }
  EXPECT_GT(possible, 500);
  EXPECT_GT(impossible, 500);
}

TEST(CutSearch, FindsThePeriodThatTryingEveryCutFinds) {
  TinyInstances random(12);
  int solved = 0;
  for (int i = 0; i < 1500; ++i) {
    Instance instance(random);
    instance.task.options.balance = Balance::kNever;  // parameters count where they are used
    instance.storage = {.parameters = true, .spared_off_chip = true};
    const RingSolution solution = RingSolver(instance.task, 1).solve();
    // Every cut, the slowest of whose parts is a candidate.
    double best = std::numeric_limits<double>::infinity();
    if (instance.task.models.front()->dedicated_engines()) {
      if (solution.feasible) {
        EXPECT_TRUE(instance.exists({solution.period * (1 + 1e-9), solution.period * (1 + 1e-9)})) << "instance " << i;
        EXPECT_FALSE(instance.exists({solution.lower_bound * (1 - 1e-9), solution.lower_bound * (1 - 1e-9)})) << "instance " << i;
        EXPECT_NEAR(solution.lower_bound / solution.period, 1, 1e-8);
        ++solved;
      } else {
        EXPECT_FALSE(instance.exists({1e9, 1e9})) << "instance " << i;
      }
      continue;
    }
    const std::function<void(size_t, int64_t, double)> extend = [&](size_t device, int64_t from, double slowest) {
      const auto d = static_cast<int64_t>(device);
      const bool last = device + 1 == instance.task.models.size();
      for (int64_t to = last ? instance.chain.end() : from; to <= instance.chain.end(); ++to) {
        if (!instance.stretch_allowed(from, to) || !instance.segments->fits(d, from, to, 1e9, instance.storage)) continue;
        double period = std::max(slowest, instance.segments->demand(d, from, to, 1).seconds);
        if (last) {
          best = std::min(best, period);
          continue;
        }
        if (!instance.cut_allowed(device, to, 1e9)) continue;
        extend(device + 1, to, std::max(period, seconds_on(instance.links[device], instance.loads->at(to))));
      }
    };
    extend(0, 0, 0);
    ASSERT_EQ(solution.feasible, std::isfinite(best)) << "instance " << i;
    if (!solution.feasible) continue;
    ++solved;
    EXPECT_NEAR(solution.period / best, 1, 1e-9) << "instance " << i;
    EXPECT_LE(solution.lower_bound, best * (1 + 1e-12));
  }
  EXPECT_GT(solved, 700);
}

TEST(CutSearch, OrdersNarrowTheCuts) {
  TinyInstances random(13);
  for (int i = 0; i < 300; ++i) {
    Instance instance(random);
    const auto devices = static_cast<int64_t>(instance.task.models.size());
    if (devices < 2) continue;
    const int64_t node = random.between(0, static_cast<int64_t>(instance.graph.nodes().size()) - 1);
    const int64_t device = random.between(0, devices - 1);
    instance.task.options.pins[instance.graph.node(node).layer.name] = device;
    const RingSolver solver(instance.task, 1);
    const RingSolution solution = solver.solve();
    if (!solution.feasible) continue;
    const int64_t group = instance.graph.node(node).group;
    const int64_t from = device == 0 ? 0 : solution.cuts[static_cast<size_t>(device - 1)];
    const int64_t to = device == devices - 1 ? instance.chain.end() : solution.cuts[static_cast<size_t>(device)];
    EXPECT_LE(from, instance.chain.begin_of(group));
    EXPECT_GE(to, instance.chain.end_of(group));
  }
}

}  // namespace
}  // namespace millrace
