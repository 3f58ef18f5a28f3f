// Rings of VC709 boards as FPDeep has them: 16 bits, sgd, half a microsecond a hop.
#pragma once

#include <memory>

#include "core/graph/zoo.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"
#include "partitioner/study/study.h"

namespace millrace::testing_support {

class Vc709Rings {
 public:
  explicit Vc709Rings(const char* model) : graph_(zoo_model(model)) {}

  // 0: links that never bind.
  StudyTask task(double gbps_both) const {
    StudyTask task;
    task.graph = &graph_;
    task.device = "vc709";
    task.model = model_.get();
    task.link = gbps_both > 0 ? LinkEntry{gbps_both, gbps_both, gbps_both, 0.5} : LinkEntry{1e6, 1e6, 0, 0.5};
    task.options.optimizer.kind = OptimizerKind::kSgd;
    task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
    return task;
  }
  const Graph& graph() const { return graph_; }
  const CostModel& model() const { return *model_; }
  const Catalogue& catalogue() const { return catalogue_; }

 private:
  Graph graph_;
  Catalogue catalogue_ = parse_catalogue(fpga_catalogue_text(), "the boards");
  std::unique_ptr<CostModel> model_ = make_fpga_cost_model(catalogue_.find("vc709"), {ElementType::kFixed16, ElementType::kFixed16});
};

}  // namespace millrace::testing_support
