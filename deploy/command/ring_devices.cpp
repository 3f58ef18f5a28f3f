#include "deploy/command/ring_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/plan/validate.h"
#include "core/train/task.h"
#include "deploy/command/catalogue_registry.h"
#include "deploy/command/cost_models.h"
#include "deploy/command/ring_flags.h"
#include "partitioner/planner/planner.h"

namespace millrace {

namespace {

// What computes here and is in no catalogue is planned for as something that is: reference devices as processors; what
// stands for an FPGA as a small board, whose engines are small enough to be simulated.
std::string planned_as(const std::string& name) {
  const auto& known = shipped_catalogue().devices;
  const bool listed = std::ranges::any_of(known, [&](const CatalogueDevice& device) {
    return device.name == name || std::ranges::find(device.short_names, name) != device.short_names.end();
  });
  if (listed || !can_compute_on(name)) return name;
  return name.starts_with("reference") ? "cpu" : "zc706";
}

}  // namespace

std::optional<Plan> plan_for_job(const Graph& graph, const Job& job) {
  Cluster asked = find_cluster(job.cluster);
  if (asked.devices.size() == 1 && can_compute_on(asked.devices.front().device) && !needs_plan(asked.devices.front().device))
    return std::nullopt;
  const Catalogue& catalogue = shipped_catalogue();
  Cluster cluster;
  if (std::ranges::any_of(asked.devices, [](const auto& device) { return planned_as(device.device) != device.device; })) {
    cluster = asked;
    for (auto& device : cluster.devices) device.device = planned_as(device.device);
  } else {
    cluster = cluster_from(job.cluster, catalogue);
    asked = cluster;
  }
  PlanTask task;
  task.graph = &graph;
  task.cluster = cluster;
  task.options.alignment = job.alignment;
  task.options.mini_batch = job.mini_batch;
  task.options.micro_batch = job.micro_batch;
  task.options.optimizer = job.optimizer;
  task.options.pins = job.pins;
  task.options.cuts = job.cuts;
  task.options.arithmetic = arithmetic_for(cluster, catalogue, std::nullopt);
  if (asked.devices.front().device == "reference64") task.options.arithmetic = {ElementType::kFloat64, ElementType::kFloat64};
  const CostModels models = models_for(cluster, catalogue, arithmetic_for(cluster, catalogue, std::nullopt));
  task.models = models.of_devices;
  Outcome outcome = make_plan(task);
  if (!outcome.feasible || !outcome.plan)
    fail(ErrorCode::kInfeasible, "no plan for {} on {}: {}", graph.model().name, job.cluster, outcome.reason.text);
  outcome.plan->cluster = asked;
  outcome.plan->time_chunks = job.time_chunks;
  outcome.plan->cluster_digest = digest_of(text_of(asked));
  return std::move(outcome.plan);
}

std::string computing_kind(const std::string& name) { return can_compute_on(name) ? name : "cpu"; }

std::unique_ptr<Device> open_ring_device(const Plan& plan, int64_t index, const DeviceOptions& options) {
  DeviceOptions with_plan = options;
  with_plan.plan = &plan;
  with_plan.index = index;
  return open_device(computing_kind(plan.cluster.devices[static_cast<size_t>(index)].device), with_plan);
}

bool job_needs_preparation(const Job& job) {
  try {
    const Cluster cluster = job.plan.empty() ? find_cluster(job.cluster) : load_plan(job.plan).cluster;
    return std::ranges::any_of(cluster.devices, [](const auto& device) { return needs_plan(device.device); });
  } catch (const Error&) {  // said when the task is prepared
    return false;
  }
}

void prepare_ring_devices(const Plan& plan, int64_t rank, const DeviceOptions& options) {
  std::vector<std::string> kinds;
  for (const auto& device : plan.cluster.devices)
    if (std::ranges::find(kinds, computing_kind(device.device)) == kinds.end()) kinds.push_back(computing_kind(device.device));
  DeviceOptions with_plan = options;
  with_plan.plan = &plan;
  with_plan.index = rank;
  for (const std::string& kind : kinds) prepare_devices(kind, with_plan);
}

std::vector<std::string> notes_on_devices(const Plan& plan) {
  std::map<std::string, int64_t> counts;
  for (const auto& device : plan.cluster.devices)
    if (!can_compute_on(device.device)) ++counts[device.device];
  std::vector<std::string> notes;
  for (const auto& [name, count] : counts)
    notes.push_back(
        fmt::format("{} device{} of kind {} {} computed by the CPU engine in fp32: what travels has the planned number of elements", count,
                    count == 1 ? "" : "s", name, count == 1 ? "is" : "are"));
  return notes;
}

}  // namespace millrace
