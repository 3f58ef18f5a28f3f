#include "partitioner/hybrid/hybrid_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/graph/zoo.h"
#include "core/plan/validate.h"
#include "partitioner/hybrid/explain.h"
#include "tests/partitioner/hybrid/tiny_models.h"

namespace millrace {
namespace {

using testing_support::DrawnCostModel;
using testing_support::TinyInstances;

// A ring of CPUs of different speeds.
class CpuRing {
 public:
  CpuRing(const Graph& graph, const std::vector<double>& speeds, double link_gbps = 100) {
    task.graph = &graph;
    task.cluster = uniform_cluster("cpu", static_cast<int64_t>(speeds.size()), {link_gbps, link_gbps, 0, 0.5});
    for (const double speed : speeds) {
      CpuProfile profile;
      profile.macs_per_second *= speed;
      profile.bytes_per_second *= speed;
      models_.push_back(make_cpu_cost_model(profile));
      task.models.push_back(models_.back().get());
    }
    task.options.mini_batch = 64;
  }
  PlanTask task;

 private:
  std::vector<std::unique_ptr<CostModel>> models_;
};

TEST(HybridPlanner, PlansOfTinyNetworksAreValidAndSayWhatTheyPredict) {
  TinyInstances random(31);
  int planned = 0;
  for (int i = 0; i < 300; ++i) {
    const Graph graph(random.model());
    const int64_t devices = random.between(1, 4);
    const DrawnCostModel model(
        {.seconds_per_pair = 1e-3, .memory = static_cast<double>(random.between(5, 40)), .dedicated = random.chance(0.5)});
    PlanTask task;
    task.graph = &graph;
    task.cluster = uniform_cluster("drawn", devices);
    task.cluster.links = random.links(devices);
    task.models.assign(static_cast<size_t>(devices), &model);
    task.options.mini_batch = 16;
    task.options.micro_batch = 1;
    task.options.alignment = random.chance(0.5) ? Alignment::kFpdeep : Alignment::kFlush;
    task.options.balance = random.chance(0.5) ? Balance::kAlways : Balance::kAuto;
    const Outcome outcome = plan_ring(task);
    if (!outcome.feasible) {
      EXPECT_FALSE(outcome.reason.text.empty());
      continue;
    }
    ++planned;
    EXPECT_NO_THROW(validate(*outcome.plan, graph, "tiny"));
    // Times are recorded in whole picoseconds.
    EXPECT_GE(outcome.summary.seconds_per_image, outcome.plan->lower_bound_seconds_per_image * (1 - 1e-6));
    for (const DeviceFigures& device : outcome.summary.devices) EXPECT_LE(device.memory_fraction, 1 + 1e-9);
    EXPECT_EQ(plan_ring(task).plan, outcome.plan);
  }
  EXPECT_GT(planned, 100);
}

TEST(HybridPlanner, APlanReadBackIsTheSamePlan) {
  const Graph graph(zoo_model("lenet5"));
  CpuRing ring(graph, {1, 1, 1});
  const Outcome outcome = plan_ring(ring.task);
  ASSERT_TRUE(outcome.feasible);
  EXPECT_EQ(parse_plan(text_of(*outcome.plan), "plan"), *outcome.plan);
}

// Momentum SGD reads weight, gradient and slot and writes weight and slot; what FPDeep's accounting has for nothing.
TEST(HybridPlanner, UpdatesTakeTheTimeOfTheirBytesWithFullAccounting) {
  const Graph graph(zoo_model("lenet5"));
  CpuRing ring(graph, {1, 1});
  ring.task.options.optimizer.kind = OptimizerKind::kMomentum;
  ring.task.mini_batch_time = [](const Plan&, const Graph&) { return MiniBatchTime{.seconds = 1}; };
  const auto picoseconds_of_update = [&](Accounting accounting) {
    ring.task.options.accounting = accounting;
    const Outcome outcome = plan_ring(ring.task);
    int64_t sum = 0;
    for (const Shard& shard : outcome.plan->shards) sum += shard.update_picoseconds;
    return static_cast<double>(sum);
  };
  int64_t parameters = 0;
  for (const Node& node : graph.nodes()) parameters += node.work.parameters;
  EXPECT_EQ(picoseconds_of_update(Accounting::kFpdeep), 0);
  EXPECT_NEAR(picoseconds_of_update(Accounting::kFull), 1e12 * 4 * 5 * static_cast<double>(parameters) / CpuProfile{}.bytes_per_second,
              100);
}

TEST(HybridPlanner, FasterDevicesGetMoreWork) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuRing ring(graph, {1, 2, 4});
  const Outcome outcome = plan_ring(ring.task);
  ASSERT_TRUE(outcome.feasible);
  std::vector<double> macs;
  for (const DeviceFigures& device : outcome.summary.devices) {
    macs.push_back(0);
    for (const ShardFigures& shard : device.shards) macs.back() += shard.macs;
  }
  EXPECT_NEAR(macs[1] / macs[0], 2, 0.3);
  EXPECT_NEAR(macs[2] / macs[0], 4, 0.6);
  EXPECT_LT(outcome.summary.idle_fraction, 0.1);
}

TEST(HybridPlanner, LayersStayWholeWhenAsked) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuRing ring(graph, {1, 1, 1, 1});
  const Outcome hybrid = plan_ring(ring.task);
  ring.task.options.strategy = Strategy::kLayer;
  const Outcome layer = plan_ring(ring.task);
  ASSERT_TRUE(layer.feasible);
  for (const Group& group : layer.plan->groups) EXPECT_EQ(group.split, Split::kWhole);
  EXPECT_GT(hybrid.summary.images_per_second, layer.summary.images_per_second);
}

// A mini-batch in which devices wait for all that crosses cuts: its fastest cuts are light ones, which are not those of the shortest
// period.
TEST(HybridPlanner, WhatIsFoundForARingIsFoundWhereItsLinksAreFaster) {
  int fell_between = 0;
  for (const char* name : {"lenet5", "fashion-cnn", "vgg11-cifar"}) {
    const Graph graph(zoo_model(name));
    for (const int64_t devices : {2, 3}) {
      double before = 0;
      for (const double gbps : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
        CpuRing ring(graph, std::vector<double>(to_size(devices), 1), gbps);
        ring.task.options.accounting = Accounting::kFull;
        ring.task.options.micro_batch = 8;
        ring.task.mini_batch_time = [](const Plan& plan, const Graph& of) {
          Plan steady = plan;
          steady.accounting = Accounting::kFpdeep;
          const PlanSummary summary = summarize(steady, of);
          double bits = 0;
          for (const LinkFigures& link : summary.links) bits += link.forward_bits_per_image + link.backward_bits_per_image;
          return MiniBatchTime{static_cast<double>(plan.mini_batch) * (summary.seconds_per_image + 1e-9 * bits), "fitted"};
        };
        const Outcome outcome = plan_ring(ring.task);
        ASSERT_TRUE(outcome.feasible) << name;
        EXPECT_GE(outcome.summary.images_per_second, before * (1 - 1e-6)) << name << " on " << devices << " at " << gbps << " Gb/s";
        before = outcome.summary.images_per_second;
        fell_between += outcome.summary.faster_between_updates > 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(fell_between, 0) << "light cuts were never better";
}

TEST(HybridPlanner, SlowLinksSetThePaceAndAreSaidTo) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuRing ring(graph, {1, 1, 1}, 0.05);
  const Outcome outcome = plan_ring(ring.task);
  ASSERT_TRUE(outcome.feasible);
  EXPECT_EQ(outcome.summary.bottleneck.kind, "link");
  const std::vector<std::string> sentences = explain(ring.task, outcome);
  EXPECT_NE(sentences.front().find("link"), std::string::npos);
}

TEST(HybridPlanner, WhatIsSaidDoesNotDependOnTheMachine) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuRing ring(graph, {1, 1, 1}, 0.05);
  Outcome outcome = plan_ring(ring.task);
  outcome.solve_seconds = 0.1;
  const std::vector<std::string> sentences = explain(ring.task, outcome);
  outcome.solve_seconds = 100;
  EXPECT_EQ(explain(ring.task, outcome), sentences);
  EXPECT_THAT(fmt::format("{}", fmt::join(sentences, "\n")), ::testing::HasSubstr("with links twice as fast"));
}

TEST(HybridPlanner, OneDeviceMoreHasTheLinkThatItIsSaidToHave) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuRing ring(graph, {1});
  const Outcome outcome = plan_ring(ring.task);
  const auto said = [&](double gbps) {
    return fmt::format("{}", fmt::join(explain(ring.task, outcome, {.link = {gbps, gbps, 0, kDefaultLatencyUs}}), "\n"));
  };
  EXPECT_THAT(said(100), ::testing::ContainsRegex("with one cpu more: [^\n]*\\(\\+[0-9.]+%\\)"));
  EXPECT_THAT(said(1e-6), ::testing::ContainsRegex("with one cpu more: [^\n]*\\((-[0-9.]+%|the same)\\)"));
}

TEST(HybridPlanner, WhoseMachineAPaceWasMeasuredOnIsSaid) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuProfile profile{.measured_on = "a bench"};
  const auto said = [&] {
    const auto model = make_cpu_cost_model(profile);
    CpuRing ring(graph, {1, 1});
    ring.task.models = {model.get(), model.get()};
    return fmt::format("{}", fmt::join(explain(ring.task, plan_ring(ring.task)), "\n"));
  };
  EXPECT_THAT(said(), ::testing::HasSubstr("the pace of cpu is measured on a bench\n"));
  profile.convolutions = {{64, 128, 16, 16, 3, 1, 8, {2, 1, 0.5}}};
  EXPECT_THAT(said(), ::testing::HasSubstr("the pace of cpu is measured on a bench, convolutions by shape\n"));
}

TEST(HybridPlanner, TooManyDevicesAreToldSo) {
  const Graph graph(zoo_model("char-rnn"));
  CpuRing ring(graph, std::vector<double>(600, 1.0));
  const Outcome outcome = plan_ring(ring.task);
  EXPECT_TRUE(outcome.feasible || !outcome.reason.text.empty());
}

TEST(HybridPlanner, OrdersAreKeptOrRefusedByName) {
  const Graph graph(zoo_model("lenet5"));
  CpuRing ring(graph, {1, 1, 1});
  ring.task.options.pins = {{"conv1", 0}, {"conv2", 1}};
  const Outcome outcome = plan_ring(ring.task);
  ASSERT_TRUE(outcome.feasible);
  for (const Shard& shard : outcome.plan->shards) {
    EXPECT_TRUE(shard.layer != "conv1" || shard.device == 0);
    EXPECT_TRUE(shard.layer != "conv2" || shard.device == 1);
  }
  ring.task.options.pins = {{"conv2", 0}, {"conv1", 1}};
  EXPECT_THROW(plan_ring(ring.task), Error);
  ring.task.options.pins = {{"convx", 0}};
  EXPECT_THROW(plan_ring(ring.task), Error);
  ring.task.options.pins = {{"conv1", 3}};
  EXPECT_THROW(plan_ring(ring.task), Error);
  ring.task.options.pins = {};
  ring.task.options.cuts = {{0, {"conv2", 0, 0}}};
  const Outcome cut = plan_ring(ring.task);
  ASSERT_TRUE(cut.feasible);
  EXPECT_EQ(cut.summary.devices[0].segment.back().layer, "conv1");
  ring.task.options.cuts = {{7, {"conv2", 0, 0}}};
  EXPECT_THROW(plan_ring(ring.task), Error);
  ring.task.options.cuts = {{0, {"conv2", 9999, 0}}};
  EXPECT_THROW(plan_ring(ring.task), Error);
}

}  // namespace
}  // namespace millrace
