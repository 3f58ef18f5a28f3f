#include <chrono>
#include <cmath>

#include "core/base/error.h"
#include "partitioner/baseline/baseline.h"
#include "partitioner/baseline/batch_ring.h"
#include "partitioner/baseline/layer_times.h"

namespace millrace {
namespace {

double macs_of(const Graph& graph) {
  double macs = 0;
  for (const Node& node : graph.nodes())
    macs += static_cast<double>(node.work.forward_macs + node.work.error_back_macs + node.work.parameter_gradient_macs);
  return macs;
}

Reason too_few_samples(const PlanTask& task, int64_t devices) {
  Reason reason;
  reason.resource = "samples";
  reason.missing = static_cast<double>(devices - task.options.mini_batch);
  reason.text = fmt::format(
      "data parallelism gives every device a sample at least, and {} devices share a mini-batch of {}; use {} "
      "devices at most, or a larger mini-batch",
      devices, task.options.mini_batch, task.options.mini_batch);
  return reason;
}

Outcome data_parallel_outcome(const PlanTask& task) {
  Outcome outcome;
  const BatchRing ring(task);
  const int64_t devices = ring.devices();
  if (devices > task.options.mini_batch) {
    outcome.reason = too_few_samples(task, devices);
    return outcome;
  }
  const int64_t samples = (task.options.mini_batch + devices - 1) / devices;
  BatchStep step;
  step.samples_held = ring.samples_that_fit(samples, 1);
  if (step.samples_held == 0) {
    outcome.reason = ring.memory_reason(1);
    return outcome;
  }
  const Chain chain(*task.graph);
  const LayerTimes times(chain);
  for (const CostModel* model : task.models) {
    double seconds = 0;
    for (int64_t g = 0; g < chain.groups(); ++g)
      seconds += times.seconds(*model, g, chain.blocks(g, chain.begin_of(g), chain.end_of(g)), step.samples_held, task.options);
    step.compute_seconds.push_back(seconds * static_cast<double>(samples));
    step.slowest_compute = std::max(step.slowest_compute, step.compute_seconds.back());
    step.macs.push_back(macs_of(*task.graph) * static_cast<double>(task.options.mini_batch) / static_cast<double>(devices));
  }
  if (!std::isfinite(step.slowest_compute)) {
    outcome.reason.text = "some layer's smallest engine is larger than a device";
    return outcome;
  }
  double parameters = 0;
  for (const Node& node : task.graph->nodes())
    if (node.trained) parameters += static_cast<double>(node.work.parameters);
  step.link_bits = ring.all_reduce_bits(parameters * ring.wire_bits());
  step.exchange_seconds = ring.seconds(step.link_bits, 2 * static_cast<double>(devices - 1));
  ring.fill(step, outcome.summary);
  outcome.feasible = true;
  for (DeviceFigures& device : outcome.summary.devices)
    for (int64_t g = 0; g < chain.groups(); ++g)
      device.segment.push_back({chain.head_of(g).layer.name, Split::kWhole, 0, static_cast<double>(chain.extent_of(g).inputs)});
  return outcome;
}

}  // namespace

Outcome plan_data(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = data_parallel_outcome(task);
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
