#include "partitioner/hybrid/streamed_layers.h"

#include <algorithm>

#include "core/plan/off_chip.h"

namespace millrace {

std::set<std::string> streamable_convolutions(const PlanTask& task) {
  const bool some_board_streams = std::any_of(task.models.begin(), task.models.end(), [](const CostModel* model) {
    return model->dedicated_engines() && off_chip_bandwidth(model->inventory()) > 0;
  });
  std::set<std::string> names;
  if (task.options.accounting != Accounting::kFull || !some_board_streams) return names;
  for (const Node& node : task.graph->nodes()) {
    const auto* convolution = std::get_if<Conv2d>(&node.layer.operation);
    if (convolution != nullptr && convolution->groups == 1 && node.trained) names.insert(node.layer.name);
  }
  return names;
}

}  // namespace millrace
