// Training on one device: follows the plan's schedule, update by update, and reports, evaluates, saves and resumes.
//
//   TrainingTask task = prepare_task(job);
//   Trainer trainer(task, *device, {.sinks = {&stdout_lines}});
//   const TrainingOutcome outcome = trainer.run();
//
// Everything numeric follows from the task, the device and the seed; nothing from timings. Evaluations and checkpoints do
// not change the weights. The run's folder (job.out) holds job.textproto, plan.textproto, fingerprint.json, metrics.jsonl
// and checkpoints/; the last checkpoint is always written there.
// Borrows the task, the device and the sinks. Not thread safe, except that `stop` may be set from anywhere.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/train/checkpoint.h"
#include "core/train/executor.h"
#include "core/train/feeding.h"
#include "core/train/metrics.h"
#include "core/train/task.h"

namespace millrace {

struct TrainerOptions {
  std::vector<MetricsSink*> sinks = {};                 // besides the run's metrics.jsonl
  std::map<std::string, std::string> fingerprint = {};  // what the numbers depend on: versions, ISA, kernel table
  std::filesystem::path resume = {};                    // a run's folder; empty: start anew
  const std::atomic<bool>* stop = nullptr;              // set: end at the next update, with a checkpoint
  int64_t log_every = 0;                                // updates between "step" records; 0: ten per epoch
};

struct Evaluation {
  double loss = 0;      // mean per sample
  double accuracy = 0;  // 0 to 1
  int64_t samples = 0;
  double seconds = 0;  // measured
};

struct TrainingOutcome {
  int64_t steps = 0;
  double epochs = 0;
  double train_loss = 0;  // of the last epoch or part of one
  Evaluation test;
  double seconds = 0;            // measured, evaluation included
  double images_per_second = 0;  // measured, training alone
  std::string reason;            // "epochs", "steps", "time limit", "signal"
  std::string weights_digest;
};

// What a training would take, before it starts.
struct TrainingForecast {
  SegmentMemory memory;  // of the tensors, exact
  int64_t updates_per_epoch = 0;
  int64_t total_updates = 0;
  double seconds_per_update = 0;  // measured over `measured_updates`
  int64_t measured_updates = 0;
};

class Trainer {
 public:
  Trainer(const TrainingTask& task, Device& device, TrainerOptions options);
  ~Trainer();

  TrainingOutcome run();
  // Times a few updates on throw-away weights. Call instead of run().
  TrainingForecast forecast();

 private:
  void start();
  void resume();
  void load_initial_weights();
  void one_update();
  double clip_scale(UpdateArguments& arguments);
  [[noreturn]] void report_non_finite(int64_t step, std::string_view what);
  [[noreturn]] void report_non_finite_loss(int64_t s);
  TensorMap finite_weights();
  void write_record(const MetricsRecord& record);
  void report_progress(bool epoch_end);
  void evaluate_now();
  void save_checkpoint();
  void write_run_folder(bool over_one_without_checkpoints);
  void write_documents() const;
  int64_t updates_between_evaluations() const;
  double epoch_now() const;

  const TrainingTask& task_;
  Device& device_;
  TrainerOptions options_;
  SegmentExecutor segment_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<MetricsFile> metrics_file_;
  std::vector<HeldBatch> held_;
  int64_t step_ = 0;
  bool rehearsing_ = false;  // a forecast: updates as in training, but by nothing, so that they cannot diverge
  int64_t saved_step_ = -1;
  int64_t evaluated_step_ = -1;
  Score since_record_;  // of the updates since the last "step" record
  Score in_epoch_;
  double training_seconds_ = 0;
  double recorded_seconds_ = 0;
  double gradient_norm_ = -1;
  int64_t trained_samples_ = 0;
  Evaluation last_evaluation_;
};

// All of `data` through the segment in evaluation mode, in order; `visit` (may be empty) sees each sample's scores.
using ScoreVisitor = std::function<void(int64_t sample, int32_t label, std::span<const float> scores)>;
Evaluation evaluate(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data, const DataTransform& transform,
                    const ScoreVisitor& visit = {});

// Every parameter, statistic and (optionally) optimizer slot of the segment under its checkpoint name.
TensorMap read_weights(SegmentExecutor& segment, const Graph& graph, ElementType type);
// With the optimizer's slots go the states that stateful layers carry between mini-batches.
TensorMap read_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, ElementType type);
// Fails with kMismatch naming the tensor when one is missing or of another shape.
void write_weights(SegmentExecutor& segment, const Graph& graph, const TensorMap& weights);
void write_optimizer(SegmentExecutor& segment, const Graph& graph, const OptimizerSettings& optimizer, const TensorMap& slots);

}  // namespace millrace
