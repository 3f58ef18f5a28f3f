#include "core/plan/recomputation.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {
namespace {

bool is_recurrent(const Node& node) { return std::holds_alternative<Recurrent>(node.layer.operation); }

bool has_own_engines(const Plan& plan, int64_t device) {
  return std::ranges::any_of(plan.shards, [&](const Shard& shard) {
    return shard.device == device && std::ranges::any_of(shard.phases, [](const PhaseEngine& engine) { return engine.multipliers > 0; });
  });
}

}  // namespace

bool recomputes(const Plan& plan) {
  return std::ranges::any_of(plan.constants, [](const Constant& constant) { return constant.name == kRecompute && constant.value >= 1; });
}

bool recomputes(const Plan& plan, int64_t device) { return recomputes(plan) && !has_own_engines(plan, device); }

void check_recomputation(const Plan& plan, const Graph& graph) {
  if (std::ranges::none_of(graph.nodes(), is_recurrent))
    fail(ErrorCode::kUsage, "--recompute has no effect: model \"{}\" has no recurrent layers; leave it out", graph.model().name);
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

}  // namespace millrace
