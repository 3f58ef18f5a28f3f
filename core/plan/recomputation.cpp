#include "core/plan/recomputation.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/graph/recurrent_memory.h"

namespace millrace {
namespace {

bool is_recurrent(const Node& node) { return std::holds_alternative<Recurrent>(node.layer.operation); }

// Chained elements, too, whose phases take turns step by step.
bool has_own_engines(const Plan& plan, int64_t device) {
  return std::ranges::any_of(plan.shards, [&](const Shard& shard) {
    return shard.device == device && std::ranges::any_of(shard.phases, [&](const PhaseEngine& engine) {
             return engine.multipliers > 0 || shard.unit == StreamingUnit::kStep;
           });
  });
}

// Whether a device without engines of its own makes a recurrent layer's steps there: the last one, where several multiply its inputs.
bool may_make_again(const Plan& plan, const Graph& graph, const Shard& shard) {
  const Node& node = graph.node(graph.index_of(shard.layer));
  if (!is_recurrent(node) || shard.after || !node.error_needed || has_own_engines(plan, shard.device)) return false;
  return std::ranges::none_of(
      plan.shards, [&](const Shard& other) { return other.layer == shard.layer && !other.after && other.device > shard.device; });
}

}  // namespace

bool recomputes(const Plan& plan) {
  return std::ranges::any_of(plan.constants, [](const Constant& constant) { return constant.name == kRecompute && constant.value >= 1; });
}

bool recomputes(const Plan& plan, int64_t device) { return recomputes(plan) && !has_own_engines(plan, device); }

void check_recomputation(const Plan& plan, const Graph& graph) {
  if (std::ranges::none_of(graph.nodes(), is_recurrent))
    fail(ErrorCode::kUsage, "--recompute has no effect: model \"{}\" has no recurrent layers; leave it out", graph.model().name);
  if (std::ranges::none_of(plan.shards, [&](const Shard& shard) { return may_make_again(plan, graph, shard); }))
    fail(ErrorCode::kUsage,
         "--recompute has no effect: boards make the steps of all layers of model \"{}\" that are trained, and keep what they are built to "
         "keep; leave it out",
         graph.model().name);
  if (plan.time_chunks > 1)
    fail(ErrorCode::kUsage, "--recompute makes sequences again as a whole, and time is taken in {} chunks; leave one of the two out",
         plan.time_chunks);
  if (plan.alignment != Alignment::kFpdeep) return;
  for (int64_t device = 0; device < plan.devices(); ++device)
    if (item(plan.windows, device) > 1 && !has_own_engines(plan, device))
      fail(ErrorCode::kUsage,
           "--recompute needs the weights that a micro-batch went forward with, and under alignment fpdeep device {} has newer ones by the "
           "time errors come back; use --alignment 1f1b, flush, zero-bubble or stash",
           device);
}

void choose_recomputation(Plan& plan, const Graph& graph) {
  check_recomputation(plan, graph);
  if (!recomputes(plan)) plan.constants.push_back({std::string(kRecompute), 1, "chosen"});
}

RecomputationFigures figures_of_recomputation(const Plan& plan, const Graph& graph, int64_t device) {
  RecomputationFigures figures;
  if (!recomputes(plan)) return figures;
  const int64_t bytes = bits_of(plan.arithmetic.compute) / 8 * plan.micro_batch;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device || !may_make_again(plan, graph, shard)) continue;
    const Node& node = graph.node(graph.index_of(shard.layer));
    const auto kept = static_cast<double>(bytes * kept_elements(node));
    figures.bytes_kept += kept * static_cast<double>(item(plan.windows, device));
    figures.bytes_shared = std::max(figures.bytes_shared, kept);
    for (const PhaseEngine& engine : shard.phases)
      if (engine.phase == Phase::kForward) figures.seconds_per_sample += 1e-12 * static_cast<double>(engine.picoseconds_per_unit);
  }
  return figures;
}

RecomputationFigures figures_of_recomputation(const Plan& plan, const Graph& graph) {
  RecomputationFigures figures;
  for (int64_t d = 0; d < plan.devices(); ++d) {
    const RecomputationFigures of_device = figures_of_recomputation(plan, graph, d);
    figures.bytes_kept += of_device.bytes_kept;
    figures.bytes_shared += of_device.bytes_shared;
    figures.seconds_per_sample = std::max(figures.seconds_per_sample, of_device.seconds_per_sample);
  }
  return figures;
}

void share_place(Shard& shard, double bytes, double& taken) {
  const double twice = std::min(bytes, taken);
  for (NamedAmount& amount : shard.resources)
    if (amount.name == "memory_bytes") amount.amount -= twice;
  shard.act_ram_bits -= static_cast<int64_t>(8 * twice);
  taken = std::max(taken, bytes);
}

}  // namespace millrace
