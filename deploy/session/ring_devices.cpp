#include "deploy/session/ring_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/cpu/cpu_catalogue.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/cpu/cpu_device.h"
#include "core/plan/recomputation.h"
#include "core/plan/time_chunking.h"
#include "core/plan/validate.h"
#include "core/train/task.h"
#include "deploy/session/accounting.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/cost_models.h"
#include "deploy/session/ring_flags.h"
#include "gpu/device/gpu_device.h"
#include "gpu/device/gpu_module.h"
#include "node/ring/training_lead.h"
#include "partitioner/baseline/kind_parallel.h"
#include "partitioner/choice/choose.h"
#include "partitioner/choice/planner.h"

namespace millrace {

namespace {

// What computes here and is in no catalogue is planned for as something that is.
std::string planned_as(const std::string& name) {
  return shipped_hardware(name) || !can_compute_on(name) ? name : device_kind(name).planned_as;
}

// As the catalogue has the name, or as that is planned which computes here under it.
bool is_gpu(const std::string& name) { return shipped_hardware(planned_as(name)) == Hardware::kGpu; }

}  // namespace

void check_division(Strategy strategy, const Graph& graph, const Cluster& cluster) {
  if (strategy != Strategy::kKind) return;
  check_recurrent(graph);
  if (cluster.devices.size() < 2)
    fail(ErrorCode::kUsage,
         "strategy kind divides recurrent layers between devices, and cluster \"{}\" has one; name one that multiplies and one that takes "
         "steps, as cpux2 or cpu+vu9p+cpu",
         cluster.name);
}

namespace {

std::optional<Plan> plan_as(const Graph& graph, const Job& job, Accounting accounting, const Catalogue& catalogue) {
  Cluster asked = find_cluster(job.cluster);
  if (!job.strategy.empty()) check_division(strategy_from(job.strategy), graph, asked);
  check_time_chunks(job.time_chunks, graph);
  if (asked.devices.size() == 1 && can_compute_on(asked.devices.front().device) && !needs_plan(asked.devices.front().device))
    return std::nullopt;
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
  if (!job.strategy.empty()) task.options.strategy = strategy_from(job.strategy);
  const bool by_kind = task.options.strategy == Strategy::kKind;
  if (!job.divide.empty()) divide(task.options, division_from(job.divide));
  check_trained(task.options.strategy);
  task.options.alignment = job.alignment;
  task.options.mini_batch = job.mini_batch;
  task.options.micro_batch = job.micro_batch;
  task.options.optimizer = job.optimizer;
  task.options.recompute = job.recompute;
  task.options.pins = job.pins;
  task.options.cuts = job.cuts;
  task.options.arithmetic = arithmetic_for(cluster, catalogue, std::nullopt);
  if (const std::string& first = asked.devices.front().device; can_compute_on(first))
    task.options.arithmetic = device_kind(first).arithmetic.value_or(task.options.arithmetic);
  const CostModels models = models_for(cluster, catalogue, arithmetic_for(cluster, catalogue, std::nullopt), accounting, graph);
  task.models = models.of_devices;
  account(task, accounting);
  // Strategy kind counts what a chunk's kernels take, and leaves out boards that only slow others down; others plan for whole sequences,
  // and for all devices.
  task.options.time_chunks = job.time_chunks == 0 || by_kind ? job.time_chunks : 1;
  Outcome outcome = job.time_chunks == 0 || by_kind ? choose_plan(task, {.leave_empty = by_kind}).outcome : make_plan(task);
  if (!outcome.feasible || !outcome.plan)
    fail(ErrorCode::kInfeasible, "no plan for {} on {}: {}", graph.model().name, job.cluster, outcome.reason.text);
  outcome.plan->cluster = asked;
  if (job.time_chunks > 0) outcome.plan->time_chunks = job.time_chunks;
  if (job.recompute) check_recomputation(*outcome.plan, graph);
  outcome.plan->cluster_digest = digest_of(text_of(asked));
  return std::move(outcome.plan);
}

}  // namespace

void check_trained(Strategy strategy) {
  if (strategy == Strategy::kModel || strategy == Strategy::kData)
    fail(ErrorCode::kUsage, "--strategy {} is compared, not run: train with hybrid, layer or kind", name_of(strategy));
}

std::optional<Plan> plan_for_job(const Graph& graph, const Job& job) {
  return plan_as(graph, job, Accounting::kFpdeep, shipped_catalogue());
}

MakePlan planner_of(Accounting accounting, const std::string& instruction_set, const std::string& rates) {
  Catalogue catalogue = shipped_catalogue_for(instruction_set);
  if (!rates.empty()) catalogue.merge(parse_catalogue(rates, kRatesOfRun));
  return [=](const Graph& graph, const Job& job) { return plan_as(graph, job, accounting, catalogue); };
}

std::string measured_rates(const Job& job, const std::function<bool()>& stops) {
  const Cluster cluster = find_cluster(job.cluster);
  const auto processor = [](const auto& device) { return shipped_hardware(planned_as(device.device)) == Hardware::kCpu; };
  if (cluster.devices.size() < 2 || std::ranges::none_of(cluster.devices, processor))
    fail(ErrorCode::kUsage, "--measure has no effect: {} needs no plan that a processor's pace decides; leave it out", job.cluster);
  CpuProfile profile = measure_cpu_profile(static_cast<int>(job.threads));
  prepare_task(job, [&](const Graph& graph, const Job& ring) -> std::optional<Plan> {
    const std::vector<int64_t> usual{1, std::min<int64_t>(8, ring.mini_batch)};
    for (const int64_t micro_batch : ring.micro_batch > 0 ? std::vector<int64_t>{ring.micro_batch} : usual)
      measure_convolutions(profile, graph, micro_batch, stops);
    return Plan{};  // nobody reads it
  });
  return text_of(Catalogue{{catalogue_device_of(profile)}});
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
    if (std::ranges::find(kinds, computing_kind(device.device, options)) == kinds.end())
      kinds.push_back(computing_kind(device.device, options));
  DeviceOptions with_plan = options;
  with_plan.plan = &plan;
  with_plan.index = rank;
  for (const std::string& kind : kinds) prepare_devices(kind, with_plan);
}

std::string computing_kind(const std::string& name, const DeviceOptions& options) {
  return can_compute_on(name) ? name : stand_in_for(shipped_hardware(name), options).name;
}

bool some_have_formats(const Plan& plan, const DeviceOptions& options) {
  return std::ranges::any_of(plan.cluster.devices,
                             [&](const auto& device) { return device_kind(computing_kind(device.device, options)).has_formats; });
}

std::unique_ptr<Device> open_ring_device(const Plan& plan, int64_t index, const DeviceOptions& options) {
  const std::string& name = item(plan.cluster.devices, index).device;
  if (options.gpus == GpuUse::kRequired && is_gpu(name) && count_gpus().count == 0)
    fail(ErrorCode::kUnavailable,
         "device {} ({}) wants a GPU, and this machine has none: {}; run where nvidia-smi shows one, or leave out "
         "--gpus required and let a processor stand in",
         index, name, count_gpus().reason);
  DeviceOptions with_plan = options;
  with_plan.plan = &plan;
  with_plan.index = index;
  return open_device(computing_kind(name, options), with_plan);
}

std::vector<std::string> notes_on_devices(const Plan& plan, const DeviceOptions& options) {
  std::map<std::string, int64_t> counts;
  for (const auto& device : plan.cluster.devices)
    if (!can_compute_on(device.device)) ++counts[device.device];
  std::vector<std::string> notes;
  for (const auto& [name, count] : counts) {
    const std::string who =
        fmt::format("{} device{} of kind {} {} computed by", count, count == 1 ? "" : "s", name, count == 1 ? "is" : "are");
    const DeviceKind& kind = stand_in_for(shipped_hardware(name), options);
    if (is_gpu(name) && is_gpu(kind.name)) {
      notes.push_back(fmt::format("{} {}", who, kind.as_stand_in(options)));
      continue;
    }
    const std::string why = !is_gpu(name)                  ? ""
                            : options.gpus == GpuUse::kOff ? " (--gpus off)"
                                                           : fmt::format(" (no GPU: {})", count_gpus().reason);
    notes.push_back(fmt::format("{} {}{}: what travels has the planned number of elements", who, kind.as_stand_in(options), why));
  }
  return notes;
}

void refuse_idle_cpu_precision(const Plan& plan, const DeviceOptions& options) {
  if (options.cpu_precision.empty()) return;
  static_cast<void>(cpu_precision_from(options.cpu_precision));
  if (std::ranges::none_of(plan.cluster.devices,
                           [&](const auto& device) { return device_kind(computing_kind(device.device, options)).takes_cpu_precision; }))
    fail(ErrorCode::kUsage,
         "--cpu-precision has no effect: no device of the plan is computed by the CPU engine; leave it out, or name cpu in --cluster");
}

void refuse_missing_gpus(const Plan& plan, const DeviceOptions& options) {
  const std::string_view flag = options.gpus == GpuUse::kRequired ? "--gpus required"
                                : !options.gpu_precision.empty()  ? "--gpu-precision"
                                : !options.gpu_algorithms.empty() ? "--gpu-algorithms"
                                : options.gpu_graphs              ? "--gpu-graphs"
                                                                  : "";
  if (flag.empty()) return;
  if (!options.gpu_precision.empty()) static_cast<void>(gpu_precision_from(options.gpu_precision));
  if (std::ranges::none_of(plan.cluster.devices, [](const auto& device) { return is_gpu(device.device); }))
    fail(ErrorCode::kUsage, "{} has no effect: no device of the plan is a GPU; leave it out, or name one in --cluster", flag);
  if (options.gpus == GpuUse::kOff) fail(ErrorCode::kUsage, "{} has no effect with --gpus off; leave one of the two out", flag);
  if (count_gpus().count == 0)
    fail(ErrorCode::kUnavailable,
         "{}: this machine has no GPU: {}; run where nvidia-smi shows one, or leave it out and let processors stand in", flag,
         count_gpus().reason);
}

}  // namespace millrace
