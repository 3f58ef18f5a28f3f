// What stands for the devices of a ring on this machine, and the plan of a ring that a job asks for.
//
//   task = prepare_task(job, planner_of(Accounting::kFull, "avx2"));
//   RingTrainer trainer(task, transport, agreement, [&](int64_t index) { return open_ring_device(task.plan, index, options); }, ...);
//
// A GPU of the catalogue is computed by a GPU where this machine has one, whatever its name. Any other device that the catalogue knows
// and this build cannot drive is computed by the CPU engine in fp32; notes_on_devices says so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/job.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/train/task.h"
#include "deploy/devices/device_registry.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// Nothing for a single device that computes here. Fails with kInfeasible and the reason where there is no plan. As FPDeep counts, which
// is enough where nothing is updated.
std::optional<Plan> plan_for_job(const Graph& graph, const Job& job);
// For prepare_task.
// By the job's strategy. The instruction set is that of the device cpu, the same on all ranks, whatever theirs: they plan each by itself.
// `rates`: a catalogue's text over the shipped one, measured_rates() say; empty: none.
MakePlan planner_of(Accounting accounting, const std::string& instruction_set, const std::string& rates = "");
// What this processor reaches in the job's convolutions, measured now, as a catalogue's text: at the job's micro-batch, or at the smallest
// and a usual one where it is to be chosen. Takes seconds. Fails with kUsage where the job's cluster has no device cpu to plan with.
std::string measured_rates(const Job& job, const std::function<bool()>& stops = {});
// Fails with kUsage on strategies that are compared and never run.
void check_trained(Strategy strategy);
// Fails with kUsage on strategy kind where nothing can be divided: no recurrent layer, or one device.
void check_division(Strategy strategy, const Graph& graph, const Cluster& cluster);

// The kind that computes for a device of this name: itself where this build can drive it, else what stands in for it (device_registry.h).
std::string computing_kind(const std::string& name, const DeviceOptions& options);
// Some device of the ring computes in 16 bits, in formats that a run may choose.
bool some_have_formats(const Plan& plan, const DeviceOptions& options);
// What takes long before the plan's devices can be opened, such as building simulations, and whether there is such a thing;
// done by every rank, before any waits for another.
bool job_needs_preparation(const Job& job);
void prepare_ring_devices(const Plan& plan, int64_t rank, const DeviceOptions& options);
std::unique_ptr<Device> open_ring_device(const Plan& plan, int64_t index, const DeviceOptions& options);
std::vector<std::string> notes_on_devices(const Plan& plan, const DeviceOptions& options);
// Fails with kUsage where --cpu-precision is none, or the CPU engine computes for no device of the plan.
void refuse_idle_cpu_precision(const Plan& plan, const DeviceOptions& options);
// Fails with kUnavailable where options ask for a GPU and this machine has none, with kUsage where no device of the plan is one.
void refuse_missing_gpus(const Plan& plan, const DeviceOptions& options);

}  // namespace millrace
