#include "partitioner/baseline/layer_times.h"

#include <cmath>
#include <limits>
#include <string_view>

namespace millrace {
namespace {

constexpr double kShortest = 1e-12;
constexpr double kLongest = 1e6;
constexpr double kTolerance = 1e-9;

// Memories are counted apart: off-chip memory takes what on-chip memory cannot.
bool is_memory(std::string_view resource) { return resource.ends_with("_bits") || resource.ends_with("_bytes"); }

bool engines_fit(const CostModel& model, const ShardQuestion& question) {
  const ShardDemand demand = model.demand_of(question);
  const std::span<const NamedAmount> capacities = model.capacities();
  for (size_t i = 0; i < capacities.size(); ++i)
    if (!is_memory(capacities[i].name) && !(demand.amounts[i] <= capacities[i].amount)) return false;
  return true;
}

// A longer period never demands more (cost_model.h), so bisection finds the least.
double least_period(const CostModel& model, ShardQuestion question) {
  const auto fits = [&](double period) {
    question.period_seconds = period;
    return engines_fit(model, question);
  };
  if (!fits(kLongest)) return std::numeric_limits<double>::infinity();
  double high = kLongest;
  double low = kShortest;
  while (high / low > 1 + kTolerance) {
    const double middle = std::sqrt(low * high);
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

LayerTimes::LayerTimes(const Chain& chain) : chain_(&chain) {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t g = 0; g < chain.groups(); ++g) {
    if (!std::holds_alternative<Conv2d>(chain.head_of(g).layer.operation)) continue;
    const Kernel tile = kernel_of(chain.head_of(g));
    double work = 0;
    for (int64_t other = 0; other < chain.groups(); ++other)
      work += static_cast<double>(chain.head_of(other).work.forward_macs) * waste(tile, other);
    if (work >= least) continue;
    least = work;
    tile_ = tile;
  }
}

LayerTimes::Kernel LayerTimes::kernel_of(const Node& head) {
  if (const auto* conv = std::get_if<Conv2d>(&head.layer.operation)) return {conv->kernel_h, conv->kernel_w};
  return {};
}

double LayerTimes::waste(const Kernel& tile, int64_t group) const {
  const Kernel kernel = kernel_of(chain_->head_of(group));
  const auto covered = [](int64_t length, int64_t part) { return (length + part - 1) / part * part; };
  return static_cast<double>(covered(kernel.height, tile.height) * covered(kernel.width, tile.width)) /
         static_cast<double>(kernel.height * kernel.width);
}

double LayerTimes::tile_waste(int64_t group) const { return waste(tile_, group); }

double LayerTimes::seconds(const CostModel& model, int64_t group, const BlockList& blocks, int64_t micro_batch,
                           const PlanOptions& options) const {
  ShardQuestion question;
  question.node = &chain_->head_of(group);
  question.blocks = blocks;
  question.after = chain_->after_of(group);
  question.micro_batch = micro_batch;
  question.optimizer_slots = options.optimizer.slots();
  question.arithmetic = options.arithmetic;
  question.recompute = options.recompute;
  if (!model.dedicated_engines()) {
    question.period_seconds = 1;  // not read
    return model.demand_of(question).seconds;
  }
  // Without an engine (rows pass as they come) any period is long enough.
  const double period = least_period(model, question);
  return period <= kShortest * (1 + 1e-6) ? 0 : period * tile_waste(group);
}

}  // namespace millrace
