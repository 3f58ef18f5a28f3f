// `millrace simulate` where mpirun started it: one plan, made or read on rank 0, simulated by all ranks.
//
//   if (under_mpirun()) return simulate_on_ranks(plan, options, show);
//
// `plan` and `show` are called on rank 0 alone, `options` everywhere. Returns the exit status; what goes wrong ends all ranks
// with it.
#pragma once

#include <functional>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/simulate/simulate.h"

namespace millrace {

bool under_mpirun();

using PlanMaker = std::function<Plan()>;
using OptionsMaker = std::function<SimulationOptions(const Plan&, const Graph&)>;
using ResultReader = std::function<void(const Plan&, const Graph&, const SimulationResult&, int64_t ranks)>;
int simulate_on_ranks(const PlanMaker& plan, const OptionsMaker& options, const ResultReader& show);

}  // namespace millrace
