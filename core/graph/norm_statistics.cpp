#include "core/graph/norm_statistics.h"

#include "core/base/error.h"

namespace millrace {

BatchNormChoice batch_norm_from(std::string_view word) {
  if (word == "exact") return BatchNormChoice::kExact;
  if (word == "running") return BatchNormChoice::kRunning;
  fail(ErrorCode::kUsage, "--batch-norm \"{}\" is unknown; exact and running are known", word);
}

Model with_choice(Model model, BatchNormChoice choice) {
  if (choice == BatchNormChoice::kAsModel) return model;
  bool any = false;
  for (Layer& layer : model.layers)
    if (auto* const norm = std::get_if<BatchNorm>(&layer.operation)) {
      norm->statistics = choice == BatchNormChoice::kRunning ? Statistics::kRunning : Statistics::kExact;
      any = any || !layer.frozen;
    }
  if (!any && choice == BatchNormChoice::kRunning)
    fail(ErrorCode::kUsage, "running statistics have no effect: model \"{}\" has no batch norm that is trained; leave --batch-norm out",
         model.name);
  return model;
}

}  // namespace millrace
