#include "partitioner/planner/planner.h"

#include "core/base/error.h"
#include "partitioner/baseline/baseline.h"
#include "partitioner/hybrid/hybrid_planner.h"

namespace millrace {
namespace {

// Every device gets a whole layer at least, so layers run out before anything else does.
Outcome plan_layers(const PlanTask& task) {
  const auto layers = static_cast<int64_t>(task.graph->groups().size());
  const auto devices = static_cast<int64_t>(task.models.size());
  if (devices <= layers || task.options.allow_empty) return plan_ring(task);
  Outcome outcome;
  outcome.reason.resource = "layers";
  outcome.reason.missing = static_cast<double>(devices - layers);
  outcome.reason.text = fmt::format(
      "layer parallelism gives every device a whole layer at least, and {} has {} for {} devices; use {} "
      "devices at most",
      task.graph->model().name, layers, devices, layers);
  return outcome;
}

}  // namespace

Outcome make_plan(const PlanTask& task) {
  switch (task.options.strategy) {
    case Strategy::kHybrid: return plan_ring(task);
    case Strategy::kLayer: return plan_layers(task);
    case Strategy::kModel: return plan_model(task);
    case Strategy::kData: return plan_data(task);
  }
  return plan_ring(task);
}

}  // namespace millrace
