// Rings that two cards fill in turn: where to cut them. Internal to partitioner/baseline.
//
//   const FoldedRing best = best_folded_ring(task, units, costs, traffic);     // best.seconds: of a sample; kNever: costs.lack() says why
//
// What all places of a card take adds up, so that no best way to a place is best for what follows: every way is tried, those left out that
// are slower already. A CPU's or GPU's places share its memory; a board has one engine for all places that want the same, and keeps what is
// in its own memory for each. Links between two cards share a cable. Fails with kUsage where there are too many ways.
#pragma once

#include <vector>

#include "partitioner/baseline/kind_costs.h"
#include "partitioner/baseline/kind_traffic.h"

namespace millrace::by_kind {

struct FoldedRing {
  double seconds = kNever;
  std::vector<Stretch> stretches;
};

FoldedRing best_folded_ring(const PlanTask& task, const std::vector<Unit>& units, KindCosts& costs, const KindTraffic& traffic);

}  // namespace millrace::by_kind
