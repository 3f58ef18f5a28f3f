// Plans a ring: which of fifteen boards computes which channels of VGG-16, and how fast that is.
//
//   plan                      modelled; no board is needed
//
// Shows: a network of the zoo, a board of the catalogue, a cost model, a plan, the figures of a plan, errors.
#include "core/documents/plan.h"

#include <cstdio>

#include "core/base/error.h"
#include "core/graph/zoo.h"
#include "fpga/catalogue/fpga_catalogue.h"
#include "fpga/cost/fpga_cost_model.h"
#include "partitioner/choice/planner.h"

using namespace millrace;

int main() {
  // 1. The network, with its shapes and counts.
  const Graph graph(zoo_model("vgg16"));

  // 2. The ring, and what a shard of a layer takes on each of its devices. The models must outlive the task.
  const Catalogue boards = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
  const auto cost = make_fpga_cost_model(boards.find("vc709"), {.wire = ElementType::kFixed16});
  PlanTask task;
  task.graph = &graph;
  task.cluster = uniform_cluster("vc709", 15, {.forward_gbps = 75, .backward_gbps = 75});
  task.models.assign(15, cost.get());
  task.options.optimizer.kind = OptimizerKind::kSgd;
  task.options.arithmetic = {.compute = ElementType::kFixed16, .wire = ElementType::kFixed16};

  // 3. A plan, or the reason why there is none.
  const Outcome outcome = make_plan(task);
  if (!outcome.feasible) {
    std::printf("no plan: %s\n", outcome.reason.text.c_str());
    return 3;
  }

  // 4. What it says. A plan is a document: save(*outcome.plan, "plan.textproto") is for `millrace simulate` and `millrace rtl`.
  std::printf("%.1f images/s (modelled)\n", outcome.summary.images_per_second);
  for (const DeviceFigures& device : outcome.summary.devices) {
    std::printf("device %2d:", static_cast<int>(device.index));
    for (const SegmentPart& part : device.segment) std::printf(" %s[%.1f, %.1f)", part.layer.c_str(), part.begin, part.end);
    std::printf("\n");
  }

  // 5. What makes no sense is an Error, which names the thing and what to do.
  try {
    zoo_model("vgg61");
    return 1;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
  }
  return 0;
}
