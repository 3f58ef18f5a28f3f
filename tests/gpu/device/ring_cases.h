// A small network trained on a ring of a GPU and processors, ranks as threads, against the same ring of processors alone. No test
// framework, as device_cases.h.
//
//   const std::string wrong = ring_matches({.gpu = 1, .open_gpu = [] { return make_gpu_device(...); }}, 1e-3);
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/recomputation.h"
#include "core/train/checkpoint.h"
#include "core/train/weights_digest.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/operation_runner.h"
#include "tests/core/random_plans.h"
#include "transport/local/local_wire.h"

namespace millrace::testing {

struct RingCase {
  int64_t gpu = 1;  // which of the devices
  std::function<std::unique_ptr<Device>()> open_gpu = {};
  int64_t devices = 3;
  int64_t ranks = 3;
  int64_t steps = 12;
  Alignment alignment = Alignment::kFlush;
  uint64_t cuts = 4;                            // seed of where the network is cut, within channels too
  std::optional<Model> network = std::nullopt;  // of sequences, cut between its first layers; none: digits-cnn
  int64_t chunks = 1;                           // of time
  bool recompute = false;                       // what recurrent layers keep is made again
  bool compares_changes = false;                // what the weights have become less what they were
  bool all_together = false;                    // of all layers at once, in place of each parameter by itself
  double learning_rate = 0.05;
};

// Every kind of state that passes from step to step, one layer on each of the first devices.
inline Model recurrent_stack(int64_t hidden = 5) {
  ModelBuilder net("stack", {3, 12, 1});
  net.layer("rnn1", Recurrent{.hidden = hidden});
  net.layer("rnn2", Recurrent{.cell = CellKind::kGru, .hidden = hidden, .reset_after = true});
  net.layer("rnn3", Recurrent{.hidden = hidden + 1, .projection = hidden - 1});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

// As deep as Persistent RNNs were trained, with all cells (or another one for the rectifier), what goes in added to what comes out every
// four layers, and both directions.
inline Model deep_stack(int64_t layers, CellKind fourth = CellKind::kVanillaRelu) {
  ModelBuilder net("deep", {3, 5, 1});
  std::string shortcut = net.layer("rnn1", Recurrent{.hidden = 4});
  const CellKind cells[] = {fourth, CellKind::kGru, CellKind::kLstm, CellKind::kVanillaTanh};
  for (int64_t i = 2; i <= layers; ++i) {
    net.layer(fmt::format("rnn{}", i), Recurrent{.cell = cells[i % 4], .hidden = 4});
    if (i % 4 == 0) shortcut = net.add(fmt::format("add{}", i), {net.last(), shortcut});
  }
  net.layer("projected", Recurrent{.hidden = 5, .projection = 3});
  net.layer("both", Recurrent{.cell = CellKind::kGru, .hidden = 3, .bidirectional = true});
  net.layer("last", LastStep{});
  net.dense("fc", 3);
  return net.finish();
}

struct RingWeights {
  std::string error;
  TensorMap weights;
  double loss = 0;
};

inline RingWeights trained_on_ring(const RingCase& c, bool with_gpu) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("millrace_gpu_ring_{}_{}", getpid(), with_gpu ? "gpu" : "cpu");
  std::filesystem::remove_all(folder);
  Job job;
  job.model = "digits-cnn";
  job.data = "digits";
  const std::filesystem::path network = folder.string() + ".textproto";
  if (c.network) {
    const Shape& input = c.network->input;
    save(*c.network, network);
    job.model = network.string();
    job.data = fmt::format("synthetic:{}x{}x{}:3:97:7", input.channels, input.height, input.width);
  }
  job.steps = c.steps;
  job.mini_batch = 16;
  job.micro_batch = 4;
  job.alignment = c.alignment;
  job.seed = 3;
  job.learning_rate.base = c.learning_rate;
  job.evaluate_every_epochs = 0;
  job.out = folder.string();
  const auto plan = [&](const Graph& graph, const Job&) -> std::optional<Plan> {
    testing_support::RandomPlans random(c.cuts);
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", c.devices);
    request.alignment = c.alignment;
    request.micro_batch = job.micro_batch;
    request.mini_batch = job.mini_batch;
    request.optimizer.kind = OptimizerKind::kMomentum;
    request.time_chunks = c.chunks;
    if (!c.network) return assemble_plan(graph, request, random.shards(graph, c.devices));
    std::vector<Cut> cuts;
    for (int64_t d = 1; d < c.devices; ++d) cuts.push_back({d, 0, 0});
    Plan made = assemble_plan(graph, request, shards_from_cuts(graph, cuts, {}));
    if (c.recompute) choose_recomputation(made, graph);
    return made;
  };
  RingWeights result;
  LocalHub hub(c.ranks);
  std::vector<std::string> errors(static_cast<size_t>(c.ranks));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < c.ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const TrainingTask task = prepare_task(job, plan);
        Transport transport(hub.wire(rank), {});
        Agreement agreement(transport);
        const OpenDevice open = [&](int64_t device) { return with_gpu && device == c.gpu ? c.open_gpu() : make_cpu_device(); };
        RingTrainer trainer(task, transport, agreement, open, {});
        const TrainingOutcome outcome = trainer.run();
        if (rank == 0) result.loss = outcome.test.loss;
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int64_t rank = 0; rank < c.ranks; ++rank)
    if (!errors[static_cast<size_t>(rank)].empty()) result.error += fmt::format("rank {}: {}; ", rank, errors[static_cast<size_t>(rank)]);
  if (result.error.empty()) result.weights = read_checkpoint(locate_checkpoint(folder)).weights;
  std::filesystem::remove_all(folder);
  std::filesystem::remove(network);
  return result;
}

// What is wrong where they have not learned the same bits.
inline std::string same_bits(const RingWeights& a, const RingWeights& b) {
  if (!a.error.empty() || !b.error.empty()) return a.error + b.error;
  if (a.weights.empty() || a.weights.size() != b.weights.size()) return "other weights";
  for (const auto& [name, tensor] : a.weights)
    if (!b.weights.contains(name) || tensor != b.weights.at(name)) return name + " differs";
  return "";
}

inline std::string ring_matches(const RingCase& c, double tolerance) {
  const RingWeights mixed = trained_on_ring(c, true), processors = trained_on_ring(c, false);
  if (!mixed.error.empty() || !processors.error.empty()) return mixed.error + processors.error;
  if (processors.weights.empty()) return "no weights were saved";
  const auto values_in = [](const HostTensor& tensor, const std::string& name) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    return values;
  };
  RingWeights before;
  if (c.compares_changes) {
    RingCase still = c;
    still.learning_rate = 1e-30;  // which no fp32 weight notices
    before = trained_on_ring(still, false);
    if (!before.error.empty()) return before.error;
  }
  std::vector<double> all_mine, all_theirs;
  for (const auto& [name, tensor] : processors.weights) {
    std::vector<double> mine = values_in(mixed.weights.at(name), name), theirs = values_in(tensor, name);
    if (c.compares_changes) {
      const std::vector<double> start = values_in(before.weights.at(name), name);
      for (size_t i = 0; i < start.size(); ++i) mine[i] -= start[i], theirs[i] -= start[i];
    }
    all_mine.insert(all_mine.end(), mine.begin(), mine.end());
    all_theirs.insert(all_theirs.end(), theirs.begin(), theirs.end());
    const double difference = normwise_difference(mine, theirs);
    if (!c.all_together && !(difference < tolerance)) return fmt::format("{}: off by {:.3g}", name, difference);
  }
  const double difference = normwise_difference(all_mine, all_theirs);
  if (!(difference < tolerance)) return fmt::format("all layers together: off by {:.3g}", difference);
  return "";
}

}  // namespace millrace::testing
