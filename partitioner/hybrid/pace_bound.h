// How fast a ring could be if its memories were never full and words off chip came for nothing: one probe that rules out most of what is
// not worth planning. Internal to partitioner/hybrid.
//
//   const PaceBound bound(task, /*micro_batch=*/1);
//   if (bound.rules_out(period)) ...          // wherever weights lie and live, no cuts keep this period
//
// Devices may be left without work. True is shown, false proves nothing. Borrows the graph and the cost models. Immutable, thread safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "partitioner/hybrid/ring_solver.h"
#include "partitioner/planning/planning.h"
#include "partitioner/planning/roomy_memory.h"

namespace millrace {

class PaceBound {
 public:
  PaceBound(const PlanTask& task, int64_t micro_batch);

  bool rules_out(double period) const { return solver_.rules_out(period); }

 private:
  PlanTask relaxed(const PlanTask& task);

  std::map<const CostModel*, std::unique_ptr<const RoomyMemory>> roomy_;
  PlanTask task_;
  RingSolver solver_;
};

}  // namespace millrace
