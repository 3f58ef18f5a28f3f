// Plans that count what is built, beside what the generator builds of them.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/graph/zoo.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "partitioner/choice/planner.h"

namespace millrace {
namespace {

std::optional<Plan> planned(const Graph& graph, const char* cluster) {
  PlanTask task;
  task.graph = &graph;
  task.cluster = cluster_from(cluster, shipped_catalogue());
  task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  const CostModels models = models_for(task.cluster, shipped_catalogue(), task.options.arithmetic, Accounting::kFull, graph);
  task.models = models.of_devices;
  account(task, Accounting::kFull);
  return make_plan(task).plan;
}

TEST(BuiltAsPlanned, InEveryPhaseOfEveryDevice) {
  for (const auto& [model, cluster] :
       {std::pair("lenet5", "zc706x2"), std::pair("digits-cnn", "vc709x15"), std::pair("fashion-cnn", "vc709x5"),
        std::pair("vgg11-cifar", "u280x3"), std::pair("mlp", "vc709"), std::pair("mlp", "vc709x3"), std::pair("vgg16", "u280x8"),
        std::pair("vgg11-cifar", "vc709x2+u280x2")}) {
    const Graph graph(find_model(model));
    const std::optional<Plan> plan = planned(graph, cluster);
    ASSERT_TRUE(plan) << model << " " << cluster;
    double planned_seconds = 0;
    for (const Shard& shard : plan->shards)
      planned_seconds = std::max(planned_seconds, check_device(*plan, graph, shard.device).planned_seconds);
    for (int64_t device = 0; device < plan->devices(); ++device) {
      const DeviceCheck check = check_device(*plan, graph, device);
      EXPECT_TRUE(check.generated) << check.reason;
      EXPECT_EQ(check.planned, check.built) << model << " " << cluster << " " << device;
      EXPECT_LE(check.built_amounts.dsp, check.planned_amounts.dsp) << model << " " << cluster << " " << device;
      EXPECT_LE(check.built_seconds, planned_seconds / 0.99) << model << " " << cluster << " " << device << " " << check.slowest;
    }
  }
}

TEST(BuiltAsPlanned, AnEngineThatWasEditedIsNamed) {
  const Graph graph(find_model("lenet5"));
  std::optional<Plan> plan = planned(graph, "zc706x2");
  ASSERT_TRUE(plan);
  Shard& shard = plan->shards.front();
  for (PhaseEngine& engine : shard.phases) engine.multipliers += 25;
  try {
    check_device(*plan, graph, shard.device);
    FAIL() << "built all the same";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_NE(std::string(error.what()).find("layer conv1: the plan gives its engine"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace millrace
