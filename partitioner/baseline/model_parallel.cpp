#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/plan/flows.h"
#include "partitioner/baseline/baseline.h"
#include "partitioner/baseline/batch_ring.h"
#include "partitioner/baseline/layer_times.h"

namespace millrace {
namespace {

bool by_outputs(const Chain& chain, int64_t group) {
  return chain.split_of(group) == Split::kOutputChannels || chain.extent_of(group).conv_groups > 1;
}

// What a layer can be shared among: its channels, or its groups where only those can be told apart.
int64_t parts_of(const Chain& chain, int64_t group) {
  if (!chain.divisible(group)) return 1;
  const LayerExtent& extent = chain.extent_of(group);
  if (extent.conv_groups > 1) return extent.conv_groups;
  return by_outputs(chain, group) ? extent.outputs : extent.inputs;
}

// The first `parts` of them.
Block block_of(const Chain& chain, int64_t group, int64_t parts) {
  const LayerExtent& extent = chain.extent_of(group);
  if (!by_outputs(chain, group)) return {{0, parts}, {0, extent.outputs}};
  const int64_t outputs = extent.outputs / parts_of(chain, group) * parts;
  return {{0, extent.conv_groups > 1 ? extent.inputs / extent.conv_groups * parts : extent.inputs}, {0, outputs}};
}

Reason too_few_channels(const Chain& chain, int64_t devices, int64_t fewest, int64_t group) {
  Reason reason;
  reason.resource = "channels";
  reason.missing = static_cast<double>(devices - fewest);
  const std::string& layer = chain.head_of(group).layer.name;
  reason.text = fewest == 1 ? fmt::format(
                                  "model parallelism shares the channels of every layer among all {} devices, and layer \"{}\" "
                                  "cannot be divided",
                                  devices, layer)
                            : fmt::format(
                                  "model parallelism shares the channels of every layer among all {} devices, and layer \"{}\" has "
                                  "{}; use {} devices at most",
                                  devices, layer, fewest, fewest);
  return reason;
}

// Bits on each link and the steps it takes to exchange them, for one sample of one layer.
struct Exchange {
  double link_bits = 0;
  double steps = 0;  // per micro-batch
};

Exchange exchange_of(const Chain& chain, int64_t group, const BatchRing& ring) {
  const Node& head = chain.head_of(group);
  const auto hops = static_cast<double>(ring.devices() - 1);
  const double sum = static_cast<double>(sum_shape(head).elements()) * ring.wire_bits();
  const double input = head.input_error_needed ? static_cast<double>(head.work.input_elements) * ring.wire_bits() : 0;
  const bool gathered = by_outputs(chain, group);
  Exchange exchange;
  exchange.link_bits =
      gathered ? ring.all_gather_bits(sum) + ring.all_reduce_bits(input) : ring.all_reduce_bits(sum) + ring.all_gather_bits(input);
  exchange.steps = (gathered ? hops : 2 * hops) + (head.input_error_needed ? (gathered ? 2 * hops : hops) : 0);
  return exchange;
}

Outcome model_parallel_outcome(const PlanTask& task) {
  Outcome outcome;
  const BatchRing ring(task);
  const Chain chain(*task.graph);
  const int64_t devices = ring.devices();
  int64_t narrowest = -1;
  for (int64_t g = 0; g < chain.groups(); ++g)
    if (chain.head_of(g).computes && (narrowest < 0 || parts_of(chain, g) < parts_of(chain, narrowest))) narrowest = g;
  if (narrowest >= 0 && devices > parts_of(chain, narrowest)) {
    outcome.reason = too_few_channels(chain, devices, parts_of(chain, narrowest), narrowest);
    return outcome;
  }
  BatchStep step;
  step.parameter_share = 1 / static_cast<double>(devices);
  step.samples_held = ring.samples_that_fit(task.options.mini_batch, step.parameter_share);
  if (step.samples_held == 0) {
    outcome.reason = ring.memory_reason(step.parameter_share);
    return outcome;
  }
  const auto batch = static_cast<double>(task.options.mini_batch);
  const double micro_batches = std::ceil(batch / static_cast<double>(step.samples_held));
  const LayerTimes times(chain);
  step.compute_seconds.assign(task.models.size(), 0);
  step.macs.assign(task.models.size(), 0);
  for (int64_t g = 0; g < chain.groups(); ++g) {
    const Node& head = chain.head_of(g);
    BlockList blocks;
    if (chain.divisible(g)) {
      blocks.push_back(block_of(chain, g, (parts_of(chain, g) + devices - 1) / devices));
    } else {
      blocks = chain.blocks(g, chain.begin_of(g), chain.end_of(g));
    }
    double slowest = 0;
    std::map<const CostModel*, double> known;
    for (size_t d = 0; d < task.models.size(); ++d) {
      const auto [place, added] = known.emplace(task.models[d], 0);
      if (added) place->second = batch * times.seconds(*task.models[d], g, blocks, step.samples_held, task.options);
      step.compute_seconds[d] += place->second;
      slowest = std::max(slowest, place->second);
      step.macs[d] += batch / static_cast<double>(devices) *
                      static_cast<double>(head.work.forward_macs + head.work.error_back_macs + head.work.parameter_gradient_macs);
    }
    step.slowest_compute += slowest;
    if (!head.computes) continue;
    const Exchange exchange = exchange_of(chain, g, ring);
    step.link_bits += batch * exchange.link_bits;
    step.exchange_seconds += ring.seconds(batch * exchange.link_bits, micro_batches * exchange.steps);
  }
  if (!std::isfinite(step.slowest_compute)) {
    outcome.reason.text = "some layer's smallest engine is larger than a device";
    return outcome;
  }
  ring.fill(step, outcome.summary);
  outcome.feasible = true;
  for (DeviceFigures& device : outcome.summary.devices)
    for (int64_t g = 0; g < chain.groups(); ++g) {
      const int64_t parts = parts_of(chain, g);
      const auto channels = static_cast<double>(by_outputs(chain, g) ? chain.extent_of(g).outputs : chain.extent_of(g).inputs);
      const auto channel = [&](int64_t part) {
        return channels / static_cast<double>(parts) * static_cast<double>(part * parts / devices);
      };
      SegmentPart part{chain.head_of(g).layer.name, Split::kWhole, 0, channels};
      if (chain.divisible(g)) {
        part.split = by_outputs(chain, g) ? Split::kOutputChannels : Split::kInputChannels;
        part.begin = channel(device.index);
        part.end = channel(device.index + 1);
      }
      device.segment.push_back(std::move(part));
    }
  return outcome;
}

}  // namespace

Outcome plan_model(const PlanTask& task) {
  const auto start = std::chrono::steady_clock::now();
  Outcome outcome = model_parallel_outcome(task);
  outcome.solve_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace millrace
