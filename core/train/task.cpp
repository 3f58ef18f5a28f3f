#include "core/train/task.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/sample_source.h"
#include "core/graph/norm_statistics.h"
#include "core/graph/step_map.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/recomputation.h"
#include "core/plan/validate.h"

namespace millrace {
namespace {

bool is_path(std::string_view text) { return text.ends_with(".textproto") || text.find('/') != std::string_view::npos; }

void add_notes(TrainingTask& task, const std::vector<std::string>& of_model) {
  task.notes = task.data.train.notes;
  task.notes.insert(task.notes.end(), of_model.begin(), of_model.end());
}

// CTC says one label a step at most, and a blank between two that are equal.
void refuse_rows_too_long(const Graph& graph, const DataSplit& data) {
  if (data.train.label_form != LabelForm::kRow) return;
  const StepMap map = step_map_of(graph, graph.scores());
  std::vector<int32_t> row(to_size(data.train.labels_each));
  for (const Dataset* part : {&data.train, &data.test})
    for (int64_t sample = 0; sample < part->size(); ++sample) {
      part->sequences->read_labels(sample, row);
      const int64_t labels = std::ranges::find(row, kNoLabel) - row.begin();
      int64_t needed = labels;
      for (int64_t i = 1; i < labels; ++i) needed += item(row, i) == item(row, i - 1) ? 1 : 0;
      const int64_t length = part->sequences->steps(sample), steps = map.steps(length);
      if (needed > steps)
        fail(
            ErrorCode::kMismatch,
            "{}: sample {} has {} labels, which take at least {} steps to say, but model \"{}\" makes {} of its {}; use a model with fewer "
            "strides over time, or leave the sample out",
            part->name, part->sequences->name_of(sample), labels, needed, graph.model().name, steps, length);
    }
}

// An augmentation that does not suit the data is refused before there is a run's folder.
void refuse_augmentation_of_others(const TrainingTask& task) {
  sample_source(task.data.train, task.transform, task.job.augmentation, task.job.seed);
}

}  // namespace

namespace {

// A mini-batch is all replicas' together: what one of them takes.
Job of_one_ring(const Job& job) {
  Job ring = job;
  if (job.mini_batch % job.replicas != 0)
    fail(ErrorCode::kUsage, "mini-batch {} is for all {} replicas together, and does not divide among them; choose a multiple of {}",
         job.mini_batch, job.replicas, job.replicas);
  ring.mini_batch /= job.replicas;
  if (job.micro_batch > 0 && ring.mini_batch % job.micro_batch != 0)
    fail(ErrorCode::kUsage,
         "of mini-batch {} each of {} replicas takes {}, which is no multiple of micro-batch {}; choose a multiple of {} as mini-batch",
         job.mini_batch, job.replicas, ring.mini_batch, job.micro_batch, job.micro_batch * job.replicas);
  return ring;
}

}  // namespace

Cluster find_cluster(std::string_view shorthand_or_path) {
  return is_path(shorthand_or_path) ? load_cluster(std::filesystem::path(shorthand_or_path)) : parse_cluster_shorthand(shorthand_or_path);
}

TrainingTask prepare_task(const Job& job, const MakePlan& make_plan) {
  validate(job);
  TrainingTask task;
  task.job = job;
  task.data = load_data(job.data);
  const Dataset& train = task.data.train;
  const auto refuse_too_few_samples = [&](int64_t mini_batch, std::string_view advice) {
    if (mini_batch * job.replicas > train.size())
      fail(ErrorCode::kUsage, "mini-batch {}{} is more than the {} training samples of {}; {}", mini_batch * job.replicas,
           job.replicas > 1 ? fmt::format(" of {} replicas together", job.replicas) : "", train.size(), train.name, advice);
  };
  if (!job.plan.empty()) {
    task.plan = load_plan(job.plan);
    if (task.plan.purpose == Purpose::kInference)
      fail(ErrorCode::kUsage, "{}: a plan for inference, which trains nothing; plan without --inference, or give it to eval or predict",
           job.plan);
    cut_to(task.data, task.plan.model);
    refuse_too_few_samples(task.plan.mini_batch, "plan again with a smaller one");
    AdaptedModel adapted = adapt(task.plan.model, form_of(train));
    if (!(adapted.model == task.plan.model))
      fail(ErrorCode::kMismatch, "{}: planned for {} with {} classes, but {} has {} and {} classes; plan again for this data", job.plan,
           text_of(task.plan.model.input), Graph(task.plan.model).classes(), train.name, text_of(train.shape), train.classes);
    task.transform = adapted.transform;
    add_notes(task, adapted.notes);
    task.graph = std::make_unique<Graph>(task.plan.model);
    if (job.recompute && !recomputes(task.plan))
      fail(ErrorCode::kUsage, "--recompute: {} does not say so; plan again with it, or leave it out", job.plan);
    refuse_rows_too_long(*task.graph, task.data);
    refuse_augmentation_of_others(task);
    return task;
  }

  const Model model = with_choice(find_model(job.model), job.batch_norm);
  cut_to(task.data, model);
  const Job ring = of_one_ring(job);
  refuse_too_few_samples(ring.mini_batch, "choose a smaller --mini-batch");
  AdaptedModel adapted = adapt(model, form_of(train));
  task.transform = adapted.transform;
  add_notes(task, adapted.notes);
  task.graph = std::make_unique<Graph>(std::move(adapted.model));
  if (task.graph->loss() < 0)
    fail(ErrorCode::kUsage, "model \"{}\" has no loss layer, so it cannot be trained; end it with softmax_cross_entropy",
         task.graph->model().name);

  refuse_rows_too_long(*task.graph, task.data);
  refuse_augmentation_of_others(task);

  if (make_plan)
    if (std::optional<Plan> plan = make_plan(*task.graph, ring)) {
      task.plan = std::move(*plan);
      return task;
    }
  PlanRequest request;
  request.cluster = find_cluster(job.cluster);
  if (request.cluster.devices.size() != 1)
    fail(ErrorCode::kUnavailable, "cluster \"{}\" has {} devices, and nobody plans here; give a plan file", job.cluster,
         request.cluster.devices.size());
  request.alignment = job.alignment;
  request.mini_batch = ring.mini_batch;
  request.micro_batch = ring.micro_batch > 0 ? ring.micro_batch : ring.mini_batch;
  request.optimizer = job.optimizer;
  request.time_chunks = std::max<int64_t>(1, job.time_chunks);  // nothing passes between devices
  // On one device every drained alignment gives the same bits; one micro-batch in flight needs the least memory.
  if (drains(job.alignment)) request.windows = {1};
  if (job.alignment == Alignment::kFlush) request.alignment = Alignment::kOneForwardOneBackward;
  task.plan = single_device_plan(*task.graph, request);
  if (job.recompute) choose_recomputation(task.plan, *task.graph);
  return task;
}

}  // namespace millrace
