// What is generated for boards that make the steps of a recurrent layer with weights that they load (strategy kind), beside what is
// planned: for `rtl`, and for `plan`, which says their pace.
//
//   const StepsCheck check = check_steps(plan, graph);
//   if (check.pace_ratio) fmt::print("{:.3f}\n", *check.pace_ratio);
//
// Not built, each with its reason: both directions on boards that share the steps, a gru whose reset comes before the product. Takes
// milliseconds; pure functions of the plan. Fails with kUnavailable where other boards of the ring have engines of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

// Whose hardware it is, and what is built of it.
struct StepsEngine {
  int64_t device = 0;
  std::string board, layer;
  std::string reason;  // why it is not built; empty: it is
  PeChainHardware hardware;
  UnitRange units;                                               // the cells whose steps it makes
  int64_t planned_cycles[2] = {0, 0}, built_cycles[2] = {0, 0};  // of a step of a micro-batch: F, E
  double planned_seconds = 0, built_seconds = 0;                 // of a sample
};

struct StepsCheck {
  std::vector<StepsEngine> engines;
  bool all = true;                   // of them are built
  std::optional<double> pace_ratio;  // nothing where one is not built
};

bool makes_steps_on_board(const Plan& plan, const Shard& shard);
// Some device makes such steps.
bool plans_steps_on_boards(const Plan& plan);

StepsEngine steps_engine_of(const Plan& plan, const Graph& graph, const Shard& shard);
StepsCheck check_steps(const Plan& plan, const Graph& graph);

}  // namespace millrace
