// Plans of boards of the shipped catalogue, and what the generator builds of them.
//
//   const Outcome outcome = outcome_of(graph, "vc709x2", Accounting::kFull);
//   for (const DeviceCheck& check : checks_of(*outcome.plan, graph)) EXPECT_TRUE(check.fits());
//
// Rings in their given order, and everything else chosen unless it is stated. Plans borrow nothing.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "fpga/conv_ce/generator/device_check.h"
#include "partitioner/choice/choose.h"
#include "partitioner/choice/planner.h"

namespace millrace::testing_support {

inline Outcome outcome_of(const Graph& graph, const char* cluster, Accounting accounting, const Catalogue& catalogue = shipped_catalogue(),
                          int64_t micro_batch = 0, int64_t mini_batch = 0, Alignment alignment = Alignment::kFpdeep,
                          bool leave_empty = false, std::map<int64_t, FixedCut> cuts = {}) {
  PlanTask task;
  task.options.micro_batch = micro_batch;
  if (mini_batch > 0) task.options.mini_batch = mini_batch;
  task.options.alignment = alignment;
  task.options.cuts = std::move(cuts);
  task.graph = &graph;
  task.cluster = cluster_from(cluster, catalogue);
  task.options.arithmetic = {ElementType::kFixed16, ElementType::kFixed16};
  const CostModels models = models_for(task.cluster, catalogue, task.options.arithmetic, accounting, graph);
  task.models = models.of_devices;
  account(task, accounting);
  return leave_empty ? choose_plan(task, usual_freedom(task)).outcome : make_plan(task);
}

// With devices left without work where that is faster, as the command does.
inline Outcome chosen_of(const Graph& graph, const char* cluster) {
  return outcome_of(graph, cluster, Accounting::kFull, shipped_catalogue(), 0, 0, Alignment::kFpdeep, /*leave_empty=*/true);
}

inline std::optional<Plan> planned(const Graph& graph, const char* cluster) { return outcome_of(graph, cluster, Accounting::kFull).plan; }

inline std::vector<DeviceCheck> checks_of(const Plan& plan, const Graph& graph) {
  std::vector<int64_t> devices(static_cast<size_t>(plan.devices()));
  std::iota(devices.begin(), devices.end(), 0);
  return check_devices(plan, graph, devices);
}

}  // namespace millrace::testing_support
