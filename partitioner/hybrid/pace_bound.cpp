#include "partitioner/hybrid/pace_bound.h"

#include <limits>

namespace millrace {

PaceBound::PaceBound(const PlanTask& task, int64_t micro_batch) : task_(relaxed(task)), solver_(task_, micro_batch) {}

PlanTask PaceBound::relaxed(const PlanTask& task) {
  PlanTask roomy = task;
  for (const CostModel*& model : roomy.models) {
    std::unique_ptr<const RoomyMemory>& lifted = roomy_[model];
    if (!lifted) lifted = std::make_unique<const RoomyMemory>(*model, std::numeric_limits<double>::infinity());
    model = lifted.get();
  }
  // Every weight beside its engine: none is ever nearer.
  roomy.options.all_off_chip = false;
  roomy.options.off_chip = {};
  for (const Node& node : task.graph->nodes()) roomy.options.on_chip.insert(node.layer.name);
  roomy.options.balance = Balance::kNever;
  roomy.options.allow_empty = true;
  return roomy;
}

}  // namespace millrace
