#include "deploy/command/accounting.h"

#include "node/simulate/mini_batch_pace.h"

namespace millrace {

Accounting accounting_of(const std::string& flag, Accounting usual) { return flag.empty() ? usual : accounting_from(flag); }

void account(PlanTask& task, Accounting accounting) {
  task.options.accounting = accounting;
  task.mini_batch_time = {};
  if (accounting == Accounting::kFpdeep) return;
  task.mini_batch_time = [](const Plan& plan, const Graph& graph) {
    const MiniBatchPace pace = mini_batch_pace(plan, graph);
    return MiniBatchTime{pace.seconds, pace.simulated ? "simulated" : "fitted"};
  };
}

}  // namespace millrace
