// Trains a small network on handwritten digits, over a ring of two devices in this process.
//
//   train [RUN_FOLDER]        with a folder: metrics and a checkpoint, for `millrace eval --checkpoint RUN_FOLDER`
//
// Shows: a job, planning inside a job, opening devices, a training, its outcome. Under mpirun a RingTrainer with a transport of
// transport/mpi does the same on as many ranks, with the same weights to the bit.
#include <cstdio>

#include "core/base/error.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/cpu/cpu_device.h"
#include "core/train/task.h"
#include "node/ring/ring_trainer.h"
#include "partitioner/choice/planner.h"

using namespace millrace;

int main(int arguments, char** words) try {
  // 1. What to train: the same document that `millrace train --job` reads.
  Job job;
  job.model = "digits-cnn";
  job.data = "digits";
  job.cluster = "cpux2";
  job.alignment = Alignment::kOneForwardOneBackward;
  job.epochs = 5;
  if (arguments > 1) job.out = words[1];

  // 2. Data, network and plan. Whoever plans is given the network as the data wants it.
  const auto cost = make_cpu_cost_model();
  const TrainingTask task = prepare_task(job, [&](const Graph& graph, const Job& asked) {
    PlanTask question;
    question.graph = &graph;
    question.cluster = find_cluster(asked.cluster);
    question.models.assign(question.cluster.devices.size(), cost.get());
    question.options.alignment = asked.alignment;
    question.options.mini_batch = asked.mini_batch;
    question.options.optimizer = asked.optimizer;
    Outcome outcome = make_plan(question);
    if (!outcome.feasible) fail(ErrorCode::kInfeasible, "no plan: {}", outcome.reason.text);
    return outcome.plan;
  });
  for (const std::string& note : task.notes) std::printf("note: %s\n", note.c_str());

  // 3. The training; a device is opened for each of the plan's.
  const TrainingOutcome outcome = train_alone(task, [](int64_t) { return make_cpu_device({.threads = 1}); });
  std::printf("%lld updates: test accuracy %.2f%%, loss %.4f, weights %s\n", static_cast<long long>(outcome.steps),
              100 * outcome.test.accuracy, outcome.test.loss, outcome.weights_digest.c_str());
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
