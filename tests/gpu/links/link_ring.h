// A small network trained on a ring of which some devices are GPUs, on queues of the host, and the others processors: one rank of it, over
// whatever host wire it is given. GPUs that are neighbours on different ranks talk by lines, where `use` lets them.
//
//   const LinkCase c{.devices = 4, .gpus = {1, 2}};
//   const LinkRun run = run_rank(c, hub.wire(rank));                 // of each rank, on a thread or in a process of its own
//   run.links                                                       // "links: 0 by MPI (device 0 is no GPU here); 1 by NCCL 2.28.9; ..."
//
// Throws what the training throws.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "core/cpu/cpu_device.h"
#include "core/train/weights_digest.h"
#include "gpu/device/gpu_device.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/random_plans.h"
#include "tests/gpu/device/queued_engine.h"
#include "tests/transport/nccl/standin_driver.h"

namespace millrace::testing {

struct LinkCase {
  int64_t devices = 4;
  std::set<int64_t> gpus = {0, 1, 2, 3};
  LinkUse use = LinkUse::kAuto;
  std::map<int64_t, testing_support::StandInOptions> drivers = {};  // by rank, where not the usual one
  bool one_gpu = false;                                             // all devices on the same
  std::string model = "digits-cnn";
  std::string data = "digits";
  int64_t steps = 2;
  Alignment alignment = Alignment::kFlush;
  uint64_t cuts = 4;  // seed of where the network is cut, within channels too
  uint64_t seed = 1;  // of the order in which queued work runs
  ElementType wire = ElementType::kFloat32;
  Nanoseconds deadline = std::chrono::seconds(30);
  std::function<void(int64_t device)> opened = {};  // before a device is
};

struct LinkRun {
  std::string weights;  // digest; on rank 0
  std::string links;
  int64_t transfers = 0;  // by this rank's lines
  int64_t device_flows = 0;
  std::vector<FlowCounters> counters;
};

inline TrainingTask link_task(const LinkCase& c) {
  Job job;
  job.model = c.model;
  job.data = c.data;
  job.steps = c.steps;
  job.mini_batch = 16;
  job.micro_batch = 4;
  job.alignment = c.alignment;
  job.seed = 3;
  job.learning_rate.base = 0.05;
  job.evaluate_every_epochs = 0;
  return prepare_task(job, [&](const Graph& graph, const Job&) -> std::optional<Plan> {
    testing_support::RandomPlans random(c.cuts);
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", c.devices);
    request.alignment = c.alignment;
    request.micro_batch = job.micro_batch;
    request.mini_batch = job.mini_batch;
    request.optimizer.kind = OptimizerKind::kMomentum;
    request.arithmetic.wire = c.wire;
    return assemble_plan(graph, request, random.shards(graph, c.devices));
  });
}

inline LinkRun run_rank(const LinkCase& c, std::unique_ptr<Wire> host) {
  const int64_t rank = host->rank();
  const TrainingTask task = link_task(c);
  testing_support::StandInOptions options{.seed = c.seed + 100 * static_cast<uint64_t>(rank)};
  if (const auto other = c.drivers.find(rank); other != c.drivers.end()) options = other->second;
  const auto driver = std::make_shared<testing_support::StandInDriver>(options);
  DeviceLinks links({.use = c.use, .driver = driver});
  Transport transport(links.over(std::move(host)), {.deadline = c.deadline, .eager_bytes = 256});
  Agreement agreement(transport);
  const OpenDevice open = [&](int64_t device) -> std::unique_ptr<Device> {
    if (c.opened) c.opened(device);
    if (!c.gpus.contains(device)) return make_cpu_device();
    return make_gpu_device(std::make_unique<QueuedEngine>(
        QueuedOptions{.seed = c.seed + static_cast<uint64_t>(device), .number = c.one_gpu ? 0 : static_cast<int>(device)}));
  };
  LinkRun run;
  {
    RingTrainer trainer(task, transport, agreement, open, {.links = &links});
    run.weights = trainer.run().weights_digest;
  }
  run.links = text_of(links.chosen());
  run.transfers = driver->transfers();
  for (size_t f = 0; f < transport.table().flows.size(); ++f) {
    run.device_flows += transport.table().flows[f].device_memory ? 1 : 0;
    run.counters.push_back(transport.counters(static_cast<int64_t>(f)));
  }
  return run;
}

}  // namespace millrace::testing
