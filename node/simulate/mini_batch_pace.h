// What a plan takes for a mini-batch, from update to update: what full accounting promises.
//
//   const MiniBatchPace pace = mini_batch_pace(plan, graph);
//   fmt::print("{:.1f} images/s\n", plan.mini_batch / pace.seconds);
//
// The plan is simulated for a few mini-batches, with the links, FIFOs and schedules that simulate() has and, of a plan with full
// accounting, no more Act-RAM than it gives, so that samples that an update holds up hold up those behind them: gradients on their way
// home, parameters on their way back, the pipeline that drains or waits, and fills again. Where rows stream, a mini-batch of many
// micro-batches takes a period for each beyond the first few: mini-batches of kMostMicroBatches (or of the largest window) are run then,
// and the rest is added; that differs from the whole run by less than a third of a period. Devices that take turns are run as they are, and
// so are links that the passes of shorter mini-batches would fill. A ring so long that even this would take seconds is not run: an update
// counts kUpdatePeriods periods, which is the middle of what the zoo's networks take. Pure. Fails as simulate() does, with kMismatch on a
// plan that deadlocks.
#pragma once

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/simulate/scenario.h"

namespace millrace {

struct MiniBatchPace {
  double seconds = 0;
  bool simulated = true;  // else fitted
};

// `replicas`: rings like this one, which agree on every update.
MiniBatchPace mini_batch_pace(const Plan& plan, const Graph& graph, const Replicas& replicas = {});

}  // namespace millrace
