#include "deploy/command/accounting.h"

#include "node/simulate/mini_batch_pace.h"

namespace millrace {
namespace {

// Between replicas, per device and direction, as `simulate --replicas` has them.
constexpr int64_t kReplicaBits = 10'000'000'000;
constexpr int64_t kReplicaPicoseconds = 5'000'000;

}  // namespace

Accounting accounting_of(const std::string& flag, Accounting usual) { return flag.empty() ? usual : accounting_from(flag); }

void account(PlanTask& task, Accounting accounting) {
  task.options.accounting = accounting;
  task.mini_batch_time = {};
  task.replicated_mini_batch_time = {};
  if (accounting == Accounting::kFpdeep) return;
  task.replicated_mini_batch_time = [](const Plan& plan, const Graph& graph, int64_t replicas) {
    Replicas rings;
    rings.count = replicas;
    if (replicas > 1) rings.outer = {kReplicaBits, kReplicaPicoseconds};
    const MiniBatchPace pace = mini_batch_pace(plan, graph, rings);
    return MiniBatchTime{pace.seconds, pace.simulated ? "simulated" : "fitted"};
  };
  task.mini_batch_time = [time = task.replicated_mini_batch_time](const Plan& plan, const Graph& graph) { return time(plan, graph, 1); };
}

}  // namespace millrace
