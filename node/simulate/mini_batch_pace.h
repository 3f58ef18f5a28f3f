// What a plan takes for a mini-batch, from update to update: what full accounting promises.
//
//   const MiniBatchPace pace = mini_batch_pace(plan, graph);
//   fmt::print("{:.1f} images/s\n", plan.mini_batch / pace.seconds);
//
// The plan is simulated for a few mini-batches, with the links, FIFOs and schedules that simulate() has and, of a plan with full
// accounting, no more Act-RAM than it gives, so that samples that an update holds up hold up those behind them: gradients on their way
// home, parameters on their way back, the pipeline that drains or waits, and fills again. Where rows stream, a mini-batch of many
// micro-batches takes as long for each beyond the first few: mini-batches of 16 micro-batches (8 where they have several samples, or the
// largest window) are run then, and the rest is added at what a sample takes between updates. That is a period, which differs from the
// whole run by less than a third of one; where the second halves of mini-batches are slower than that, longer ones are run until two
// lengths agree. Devices that take turns are run as they are, and so are links that the passes of shorter mini-batches would fill, and
// under flush, where windows are as long as mini-batches, networks of few rows. A ring that would take seconds is run with mini-batches of
// no fewer than four micro-batches; where even that is too long, two micro-batches are run, and what an update holds up follows from their
// passage (update_hold.h): deep stacks of recurrent layers, on whose boards sequences of thousands of steps are rows, have updates for
// nothing where networks of convolutions lose two periods. Rings of so many rows that two micro-batches take seconds, and long ones where
// parameters travel or some devices take turns, are not run: an update counts 1.8 periods then, which is the middle of what the zoo's
// networks take, and where parameters travel two for every sample of a micro-batch; the longest update of a device comes on top. Pure.
// Fails as simulate() does, with kStandstill on a plan that deadlocks.
#pragma once

#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "node/simulate/scenario.h"

namespace millrace {

struct MiniBatchPace {
  double seconds = 0;
  // "simulated"; "modelled", where an update's part is told by the passage of a few samples; "fitted"
  std::string_view origin = "simulated";
};

// `replicas`: rings like this one, which agree on every update.
MiniBatchPace mini_batch_pace(const Plan& plan, const Graph& graph, const Replicas& replicas = {});

}  // namespace millrace
