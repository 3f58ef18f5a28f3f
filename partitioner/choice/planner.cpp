#include "partitioner/choice/planner.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/recomputation.h"
#include "core/plan/seats.h"
#include "partitioner/baseline/baseline.h"
#include "partitioner/baseline/kind_parallel.h"
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

Outcome plan_by_strategy(const PlanTask& task) {
  switch (task.options.strategy) {
    case Strategy::kHybrid: return plan_ring(task);
    case Strategy::kLayer: return plan_layers(task);
    case Strategy::kModel: return plan_model(task);
    case Strategy::kData: return plan_data(task);
    case Strategy::kKind: return plan_by_kind(task);
  }
  return plan_ring(task);
}

// A layer that no device of the ring can have, whatever the cuts.
Reason refused_everywhere(const PlanTask& task) {
  Reason reason;
  for (const Node& node : task.graph->nodes()) {
    std::string first;
    const bool everywhere = std::ranges::all_of(task.models, [&](const CostModel* model) {
      const std::string refusal = model->refusal(node);
      if (first.empty()) first = refusal;
      return !refusal.empty();
    });
    if (!everywhere || first.empty()) continue;
    reason.resource = "hardware";
    reason.text = fmt::format("layer \"{}\" {}", node.layer.name, first);
    break;
  }
  return reason;
}

// What the search gave to a device that cannot have it.
Reason refused_in(const Plan& plan, const PlanTask& task) {
  Reason reason;
  for (const Group& group : plan.groups) {
    std::vector<std::string> layers = group.after;
    layers.insert(layers.begin(), group.layer);
    for (const std::string& layer : layers) {
      const size_t makers = layer == group.layer ? makers_of(plan, group) : group.shards.size();
      const int64_t owner = fast_item(plan.shards, group.shards[makers - 1]).device;
      const auto device = to_size(owner);
      const std::string refusal = task.models[device]->refusal(task.graph->node(task.graph->index_of(layer)));
      if (refusal.empty()) continue;
      reason.device = owner;
      reason.resource = "hardware";
      reason.text = fmt::format("on device {} ({}) layer \"{}\" {}; or keep it off such devices with --pin", owner,
                                task.cluster.devices[device].device, layer, refusal);
      return reason;
    }
  }
  return reason;
}

}  // namespace

Outcome make_plan(const PlanTask& task) {
  if (folds(task.cluster) && task.options.strategy != Strategy::kKind)
    fail(ErrorCode::kUsage, "cards that fill several places of the ring are planned with --strategy kind alone; name every card once");
  Outcome infeasible;
  infeasible.reason = refused_everywhere(task);
  if (!infeasible.reason.text.empty()) return infeasible;
  Outcome outcome = plan_by_strategy(task);
  if (!outcome.plan) return outcome;
  if (task.options.recompute) choose_recomputation(*outcome.plan, *task.graph);
  infeasible.reason = refused_in(*outcome.plan, task);
  infeasible.solve_seconds = outcome.solve_seconds;
  return infeasible.reason.text.empty() ? outcome : infeasible;
}

}  // namespace millrace
