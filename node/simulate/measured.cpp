#include "node/simulate/measured.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/seats.h"

namespace millrace::simulation {

Plan with_measured_times(Plan plan, const std::vector<MeasuredActions>& measured) {
  std::vector<bool> given(to_size(plan.devices()));
  for (Shard& shard : plan.shards) {
    shard.unit = StreamingUnit::kSample;
    shard.phases.clear();
    const auto device = to_size(shard.device);
    if (given[device]) continue;
    given[device] = true;
    const MeasuredActions& actions = measured[device];
    const auto per_sample = [&](int64_t picoseconds) { return (picoseconds + plan.micro_batch / 2) / plan.micro_batch; };
    shard.phases = {{Phase::kForward, "measured", 0, per_sample(actions.forward)},
                    {Phase::kErrorBack, "measured", 0, per_sample(actions.error_back)},
                    {Phase::kParameterGradient, "measured", 0, per_sample(actions.parameter_gradient)}};
  }
  return plan;
}

void check_measured(const Plan& plan, const Graph& graph, const SimulationOptions& options) {
  constexpr int64_t kLongest = int64_t{1} << 57;  // picoseconds: 40 hours
  if (!options.measured.empty() && options.measured.size() != to_size(plan.devices()))
    fail(ErrorCode::kUsage, "measured times of {} devices, where the plan has {}", options.measured.size(), plan.devices());
  if (!options.measured.empty() && plan.time_chunks > 1)
    fail(ErrorCode::kUsage,
         "measured times are of whole sequences, and this plan takes them in {} chunks of time; simulate it without the times, or plan it "
         "with --time-chunks 1",
         plan.time_chunks);
  for (const MeasuredActions& actions : options.measured)
    for (const int64_t time : {actions.forward, actions.error_back, actions.parameter_gradient, actions.update, actions.between})
      if (time < 0 || time > kLongest) fail(ErrorCode::kUsage, "an action of {} ps: that cannot be simulated", time);
  if (options.cores + options.trainer_ranks > 0 && folds(plan.cluster))
    fail(ErrorCode::kUsage, "cores and ranks are a trainer's, and this ring's cards fill several places; simulate it without them");
  if (options.cores < 0 || options.trainer_ranks < 0) fail(ErrorCode::kUsage, "cores and ranks of a trainer are 1 or more");
  if (options.trainer_ranks > plan.devices())
    fail(ErrorCode::kUsage, "{} ranks for {} devices: every rank has one at least", options.trainer_ranks, plan.devices());
  if (!options.trainer_rank_of.empty() &&
      (static_cast<int64_t>(options.trainer_rank_of.size()) != plan.devices() ||
       std::ranges::any_of(options.trainer_rank_of, [&](int64_t rank) { return rank < 0 || rank >= options.trainer_ranks; })))
    fail(ErrorCode::kUsage, "of each of the {} devices is to be said which of {} ranks acts for it", plan.devices(), options.trainer_ranks);
  if (options.cores + options.trainer_ranks > 0 && options.measured.empty() && streams_rows(plan, graph))
    fail(ErrorCode::kUsage, "cores are shared by devices that take turns; this plan's devices have engines of their own");
}

}  // namespace millrace::simulation
