#include "partitioner/choice/planner.h"

#include <gmock/gmock.h>

#include "core/base/error.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/device/roofline.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/recomputation.h"
#include "partitioner/hybrid/hybrid_planner.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing::Not;

class Planner : public testing::Test {
 protected:
  PlanTask task_of(Strategy strategy, int64_t devices) const {
    PlanTask task;
    task.graph = &graph_;
    task.cluster = uniform_cluster("cpu", devices);
    task.models.assign(static_cast<size_t>(devices), model_.get());
    task.options.strategy = strategy;
    task.options.mini_batch = 64;
    return task;
  }

  const Graph graph_{zoo_model("lenet5")};
  const std::unique_ptr<CostModel> model_ = make_cpu_cost_model(CpuProfile{});
};

TEST_F(Planner, RingsCarryAPlanAndClosedFormsDoNot) {
  for (const Strategy strategy : {Strategy::kHybrid, Strategy::kLayer, Strategy::kModel, Strategy::kData}) {
    const Outcome outcome = make_plan(task_of(strategy, 2));
    ASSERT_TRUE(outcome.feasible) << name_of(strategy) << ": " << outcome.reason.text;
    EXPECT_EQ(outcome.plan.has_value(), strategy == Strategy::kHybrid || strategy == Strategy::kLayer) << name_of(strategy);
    EXPECT_GT(outcome.summary.images_per_second, 0) << name_of(strategy);
    EXPECT_EQ(outcome.summary.devices.size(), 2u) << name_of(strategy);
    EXPECT_EQ(outcome.summary.links.size(), 1u) << name_of(strategy);
  }
}

TEST_F(Planner, HybridIsTheRingPlannersAnswer) {
  const PlanTask task = task_of(Strategy::kHybrid, 3);
  EXPECT_EQ(make_plan(task).plan, plan_ring(task).plan);
}

TEST_F(Planner, LayerParallelismCutsBetweenLayersOnly) {
  const Outcome outcome = make_plan(task_of(Strategy::kLayer, 4));
  ASSERT_TRUE(outcome.feasible);
  for (const Group& group : outcome.plan->groups) EXPECT_EQ(group.shards.size(), 1u) << group.layer;
}

TEST_F(Planner, LayerParallelismEndsWithTheLayers) {
  const auto layers = static_cast<int64_t>(graph_.groups().size());
  EXPECT_TRUE(make_plan(task_of(Strategy::kLayer, layers)).feasible);
  const Outcome outcome = make_plan(task_of(Strategy::kLayer, layers + 3));
  EXPECT_FALSE(outcome.feasible);
  EXPECT_EQ(outcome.reason.resource, "layers");
  EXPECT_EQ(outcome.reason.missing, 3);
  EXPECT_THAT(outcome.reason.text, HasSubstr("lenet5 has 5"));
}

TEST_F(Planner, DevicesThatMayStayEmptyNeedNoLayer) {
  PlanTask task = task_of(Strategy::kLayer, 8);
  task.options.allow_empty = true;
  EXPECT_TRUE(make_plan(task).feasible);
}

// A model of a device that refuses batch norms.
class Refusing final : public CostModel {
 public:
  explicit Refusing(const CostModel& other) : other_(other) {}
  std::string device() const override { return other_.device(); }
  ShardDemand demand_of(const ShardQuestion& question) const override { return other_.demand_of(question); }
  ShardCost cost_of(const ShardQuestion& question) const override { return other_.cost_of(question); }
  std::span<const NamedAmount> capacities() const override { return other_.capacities(); }
  size_t parameter_memory() const override { return other_.parameter_memory(); }
  std::vector<Constant> constants() const override { return other_.constants(); }
  std::string refusal(const Node& node) const override {
    return std::holds_alternative<BatchNorm>(node.layer.operation) ? "is what it does not do; do otherwise" : "";
  }

 private:
  const CostModel& other_;
};

TEST(PlannerRefusals, NameTheLayerAndWhatToDo) {
  const Graph graph(zoo_model("resnet18-cifar"));
  const std::unique_ptr<CostModel> model = make_cpu_cost_model(CpuProfile{});
  const Refusing refusing(*model);
  PlanTask task;
  task.graph = &graph;
  task.cluster = uniform_cluster("cpu", 2);
  task.models = {&refusing, &refusing};
  task.options.mini_batch = 64;
  for (const Strategy strategy : {Strategy::kHybrid, Strategy::kLayer, Strategy::kModel, Strategy::kData}) {
    task.options.strategy = strategy;
    const Outcome outcome = make_plan(task);
    EXPECT_FALSE(outcome.feasible) << name_of(strategy);
    EXPECT_EQ(outcome.reason.resource, "hardware");
    EXPECT_EQ(outcome.reason.text, "layer \"bn1\" is what it does not do; do otherwise");
  }
  // One of two: whoever got such a layer is named, and pins can keep it away.
  task.options.strategy = Strategy::kHybrid;
  task.models = {model.get(), &refusing};
  const Outcome outcome = make_plan(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_EQ(outcome.reason.device, 1);
  EXPECT_THAT(outcome.reason.text, HasSubstr("on device 1 (cpu) layer"));
  EXPECT_THAT(outcome.reason.text, HasSubstr("--pin"));
}

// A stack of recurrent layers on a device that has room for one of them at a time.
TEST(PlannerRecomputation, FitsWhereMemoryIsShortAndIsNamedThere) {
  constexpr int64_t kLayers = 12, kHidden = 8, kSteps = 20;
  ModelBuilder net("deep", {kHidden, kSteps, 1});
  for (int64_t i = 0; i < kLayers; ++i) net.layer(fmt::format("lstm{}", i), Recurrent{.hidden = kHidden});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  const Graph graph(net.finish());
  Roofline roofline;
  roofline.device = "small";
  roofline.macs_per_second = roofline.bytes_per_second = 1e9;
  const auto plan = [&](double memory, bool recompute) {
    roofline.memory_bytes = memory;
    const std::unique_ptr<CostModel> model = make_roofline_cost_model(roofline);
    PlanTask task;
    task.graph = &graph;
    task.cluster = uniform_cluster("cpu", 1);
    task.models = {model.get()};
    task.options.alignment = Alignment::kFlush;
    task.options.mini_batch = 8;
    task.options.micro_batch = 2;
    task.options.recompute = recompute;
    return make_plan(task);
  };
  const Outcome kept = plan(1e12, false), again = plan(1e12, true);
  ASSERT_TRUE(kept.plan && again.plan);
  EXPECT_FALSE(recomputes(*kept.plan));
  EXPECT_TRUE(recomputes(parse_plan(text_of(*again.plan), "text")));
  const double all = kept.summary.devices[0].memory, least = again.summary.devices[0].memory;
  constexpr double kKept = 4.0 * (4 + 1 + 1) * kHidden * kSteps * 2;  // bytes of a micro-batch: gates, states and cells
  EXPECT_NEAR(all - least, kKept * static_cast<double>(kLayers * kept.plan->windows[0] - 1), 1);
  const RecomputationFigures figures = figures_of_recomputation(*again.plan, graph);
  EXPECT_NEAR(figures.bytes_kept - figures.bytes_shared, all - least, 1);
  EXPECT_GT(again.summary.seconds_per_image, kept.summary.seconds_per_image);

  const Outcome short_of_it = plan((all + least) / 2, false), fits = plan((all + least) / 2, true);
  EXPECT_FALSE(short_of_it.feasible);
  EXPECT_THAT(short_of_it.reason.text, HasSubstr("with --recompute it fits"));
  EXPECT_TRUE(fits.feasible) << fits.reason.text;
  EXPECT_THAT(plan(least / 2, false).reason.text, Not(HasSubstr("--recompute")));
}

}  // namespace
}  // namespace millrace
