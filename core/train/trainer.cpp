#include "core/train/trainer.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <sstream>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/progress.h"
#include "core/plan/schedule.h"
#include "core/train/learning_rate.h"
#include "core/train/weights_digest.h"

namespace millrace {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

double mean(double sum, int64_t count) { return sum / static_cast<double>(std::max<int64_t>(1, count)); }

std::string json_object(const std::map<std::string, std::string>& values) {
  std::string text = "{\n";
  for (auto it = values.begin(); it != values.end(); ++it)
    text += fmt::format("  \"{}\": \"{}\"{}\n", it->first, it->second, std::next(it) == values.end() ? "" : ",");
  return text + "}\n";
}

// The scores so far of a record to come: a checkpoint holds them, so that a resumed training reports what an unbroken one
// does. The sum is written so that reading it back gives the same bits.
constexpr const char* kSinceRecord = "score_since_record";
constexpr const char* kInEpoch = "score_in_epoch";

std::string text_of(const Score& score) { return fmt::format("{} {} {}", score.loss, score.correct, score.samples); }

Score score_from(const std::map<std::string, std::string>& attributes, const char* name) {
  Score score;
  const auto found = attributes.find(name);
  if (found == attributes.end()) return score;
  std::istringstream text(found->second);
  if (!(text >> score.loss >> score.correct >> score.samples))
    fail(ErrorCode::kMalformed, "the checkpoint's attribute {} is \"{}\", expected loss, correct answers and samples", name, found->second);
  return score;
}

// A run's folder as a training leaves it that was killed early: everything but a checkpoint, whole or damaged.
bool stopped_before_its_first_checkpoint(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "job.textproto")) return false;
  const std::filesystem::path checkpoints = run / "checkpoints";
  if (!std::filesystem::is_directory(checkpoints)) return true;
  const auto is_leftover = [](const std::filesystem::directory_entry& entry) { return entry.path().extension() == ".partial"; };
  return std::all_of(std::filesystem::directory_iterator(checkpoints), std::filesystem::directory_iterator(), is_leftover);
}

}  // namespace

Trainer::~Trainer() = default;

Trainer::Trainer(const TrainingTask& task, Device& device, TrainerOptions options)
    : task_(task), device_(device), options_(std::move(options)), segment_(task.plan, *task.graph, 0, device) {
  if (!drains(task.plan.alignment) && task.plan.windows[0] != 1)
    fail(ErrorCode::kUnavailable,
         "alignment {} with a window of {} keeps micro-batches under way across updates; on one device the window is 1, plan again",
         name_of(task.plan.alignment), task.plan.windows[0]);
  loader_ = training_loader(task);
  held_.resize(static_cast<size_t>(std::max<int64_t>(task.plan.windows[0], task.plan.micro_batches())));
  if (options_.log_every <= 0) options_.log_every = std::max<int64_t>(1, task.updates_per_epoch() / 10);
}

// 0: at the end alone, which also stands for more updates than the training has.
int64_t Trainer::updates_between_evaluations() const {
  const double updates = task_.job.evaluate_every_epochs * static_cast<double>(task_.updates_per_epoch());
  if (updates <= 0 || updates > static_cast<double>(task_.total_updates())) return 0;
  return std::max<int64_t>(1, std::llround(updates));
}

double Trainer::epoch_now() const { return static_cast<double>(step_) / static_cast<double>(task_.updates_per_epoch()); }

void Trainer::load_initial_weights() {
  const TensorMap weights = load_weights(task_.job.init_from);
  int64_t taken = 0;
  std::string kept;
  for (const Node& node : task_.graph->nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      const std::string name = node.layer.name + "." + parameter.tensor;
      const auto found = weights.find(name);
      if (found == weights.end() || found->second.dimensions != parameter.dimensions) {
        kept += (kept.empty() ? "" : ", ") + name;
        continue;
      }
      std::vector<double> values(static_cast<size_t>(parameter.elements()));
      copy_values(found->second, std::span<double>(values), name);
      segment_.write_parameter(node.layer.name, parameter.tensor, values);
      ++taken;
    }
  if (taken == 0)
    fail(ErrorCode::kMismatch,
         "{}: no tensor has the name and shape of a parameter of model \"{}\"; choose the --model they were trained with",
         task_.job.init_from, task_.plan.model.name);
  log::info("{} tensors start from {}", taken, task_.job.init_from);
  if (!kept.empty()) log::warning("not in it, or of another shape, so drawn from the seed: {}", kept);
}

void Trainer::start() {
  segment_.initialize(task_.job.seed);
  const bool resuming = !options_.resume.empty();
  if (resuming && !stopped_before_its_first_checkpoint(options_.resume)) return resume();
  if (resuming) log::info("{} has no checkpoint yet: training starts from the beginning", options_.resume.string());
  if (!task_.job.init_from.empty()) load_initial_weights();
  if (!task_.job.out.empty()) write_run_folder(resuming);
}

void Trainer::resume() {
  const CheckpointContent content = read_checkpoint(locate_checkpoint(options_.resume));
  const std::string digest = digest_of(text_of(task_.plan));
  if (content.facts.plan_digest != digest)
    log::warning("the checkpoint was written under another plan: training continues from its weights, not bitwise as before");
  if (content.facts.seed != task_.job.seed)
    fail(ErrorCode::kMismatch, "the checkpoint was written with seed {}, this run asks for {}; leave --seed out when resuming",
         content.facts.seed, task_.job.seed);
  if (content.facts.optimizer.kind != task_.plan.optimizer.kind)
    fail(ErrorCode::kMismatch,
         "the checkpoint was written with optimizer {}, this run asks for {}; leave --optimizer out when resuming, or start "
         "anew from its weights with --init-from",
         name_of(content.facts.optimizer.kind), name_of(task_.plan.optimizer.kind));
  write_weights(segment_, *task_.graph, content.weights);
  write_optimizer(segment_, *task_.graph, task_.plan.optimizer, content.optimizer);
  since_record_ = score_from(content.facts.attributes, kSinceRecord);
  in_epoch_ = score_from(content.facts.attributes, kInEpoch);
  step_ = content.facts.step;
  saved_step_ = step_;
  if (task_.job.out.empty()) return;
  metrics_file_ = std::make_unique<MetricsFile>(MetricsFile::resumed(std::filesystem::path(task_.job.out) / "metrics.jsonl", step_));
  log::info("resumed at step {} (epoch {:.2f})", step_, epoch_now());
  if (step_ >= task_.total_updates())
    log::warning("nothing is left to train, the run has its {} updates; ask for more with --epochs or --steps", task_.total_updates());
  const std::filesystem::path fingerprint = std::filesystem::path(task_.job.out) / "fingerprint.json";
  if (!std::filesystem::exists(fingerprint) || read_text(fingerprint) != json_object(options_.fingerprint))
    log::warning("{} tells of another program, processor or kernel table: training continues, not bitwise as before", fingerprint.string());
  write_documents();
}

void Trainer::write_run_folder(bool over_one_without_checkpoints) {
  const std::filesystem::path out = task_.job.out;
  const bool occupied = std::filesystem::exists(out / "job.textproto") || std::filesystem::exists(out / "checkpoints");
  if (occupied && !over_one_without_checkpoints)
    fail(ErrorCode::kUsage, "{} already holds a run; choose another --out, or continue it with --resume {}", out.string(), out.string());
  make_folders(out);
  write_documents();
  metrics_file_ = std::make_unique<MetricsFile>(out / "metrics.jsonl");
}

// What the run is made of, as it is trained from now on.
void Trainer::write_documents() const {
  const std::filesystem::path out = task_.job.out;
  save(task_.job, out / "job.textproto");
  save(task_.plan, out / "plan.textproto");
  write_atomically(out / "fingerprint.json", json_object(options_.fingerprint));
}

void Trainer::write_record(const MetricsRecord& record) {
  for (MetricsSink* sink : options_.sinks) sink->write(record);
  if (metrics_file_) metrics_file_->write(record);
}

double Trainer::clip_scale(UpdateArguments& arguments) {
  const Job& job = task_.job;
  if (job.clip == ClipKind::kValue) arguments.value_limit = job.clip_limit;
  if (job.clip != ClipKind::kGlobalNorm) return 1;
  gradient_norm_ = std::sqrt(segment_.squared_gradient_norm());
  return gradient_norm_ > job.clip_limit ? job.clip_limit / gradient_norm_ : 1;
}

void Trainer::report_non_finite(int64_t step, std::string_view what) {
  fail(ErrorCode::kNumeric, "step {}: {}; lower the learning rate (now {:g}) or clip the gradients (--clip-norm){}", step, what,
       learning_rate_at(task_.job.learning_rate, epoch_now(), task_.job.epochs),
       saved_step_ < 0 ? "" : fmt::format(". The checkpoint of step {} is intact", saved_step_));
}

void Trainer::report_non_finite_loss(int64_t s) {
  const std::string layer = segment_.first_non_finite(s);
  report_non_finite(step_ + 1, "the loss is not finite" +
                                   (layer.empty() ? std::string() : fmt::format("; the first layer whose output is not is \"{}\"", layer)));
}

// A relu turns NaN into 0 and so hides it from the loss: what is saved and reported is looked at itself.
TensorMap Trainer::finite_weights() {
  TensorMap weights = read_weights(segment_, *task_.graph, device_.compute_type());
  for (const auto& [name, tensor] : weights) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    if (std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) continue;
    report_non_finite(step_, fmt::format("{} is no longer finite", name));
  }
  return weights;
}

// One update: the schedule's actions for one mini-batch. With one device nothing is under way across updates.
void Trainer::one_update() {
  const int64_t n = task_.plan.micro_batches();
  ScheduleSpec spec = schedule_spec(task_.plan, 0, 1);
  const std::vector<Action> actions = actions_of(spec);
  Score score;
  for (const Action& action : actions) {
    const int64_t s = step_ * n + action.index;
    HeldBatch& held = held_[static_cast<size_t>(s) % held_.size()];
    switch (action.kind) {
      case ActionKind::kForward: {
        const Batch& loaded = loader_->load(s);
        held.take(loaded, {.training = true,
                           .seed = task_.job.seed,
                           .error_scale = 1.0 / static_cast<double>(task_.plan.mini_batch),
                           .micro_batch = task_.plan.micro_batch});
        Score one;
        segment_.forward(held.view(), loaded.pixels, nullptr, &one);
        if (!std::isfinite(one.loss)) report_non_finite_loss(s);
        score += one;
        break;
      }
      case ActionKind::kErrorBack: segment_.error_back(held.view()); break;
      case ActionKind::kParameterGradient: segment_.parameter_gradient(held.view()); break;
      case ActionKind::kUpdate: {
        UpdateArguments arguments;
        arguments.optimizer = task_.plan.optimizer;
        arguments.learning_rate = rehearsing_ ? 0 : learning_rate_at(task_.job.learning_rate, epoch_now(), task_.job.epochs);
        arguments.step = step_ + 1;
        arguments.gradient_scale = clip_scale(arguments);
        segment_.update(arguments);
        break;
      }
      case ActionKind::kValidate: MILLRACE_CHECK(false, "no evaluation is scheduled inside an update"); break;
    }
  }
  ++step_;
  since_record_ += score;
  in_epoch_ += score;
  trained_samples_ += score.samples;
}

void Trainer::report_progress(bool epoch_end) {
  Score& score = epoch_end ? in_epoch_ : since_record_;
  MetricsRecord record;
  record.event = epoch_end ? "epoch" : "step";
  record.values = {{"step", step_},
                   {"epoch", epoch_now()},
                   {"loss", mean(score.loss, score.samples)},
                   {"accuracy", mean(static_cast<double>(score.correct), score.samples)},
                   {"samples", score.samples},
                   {"learning_rate",
                    learning_rate_at(task_.job.learning_rate,
                                     static_cast<double>(step_ - 1) / static_cast<double>(task_.updates_per_epoch()), task_.job.epochs)}};
  if (!epoch_end) {
    const double seconds = training_seconds_ - recorded_seconds_;
    recorded_seconds_ = training_seconds_;
    if (gradient_norm_ >= 0) record.values.push_back({"gradient_norm", gradient_norm_});
    record.values.push_back({"images_per_second", static_cast<double>(score.samples) / std::max(seconds, 1e-9)});
  }
  write_record(record);
  score = Score{};
}

void Trainer::evaluate_now() {
  if (evaluated_step_ == step_) return;
  evaluated_step_ = step_;
  last_evaluation_ = evaluate(segment_, *task_.graph, task_.plan, task_.data.test, task_.transform);
  if (!std::isfinite(last_evaluation_.loss)) {
    finite_weights();  // names the parameter when that is the cause
    report_non_finite(step_, "the loss of the evaluation is not finite, though every weight is");
  }
  write_record({"evaluation",
                {{"step", step_},
                 {"epoch", epoch_now()},
                 {"loss", last_evaluation_.loss},
                 {"accuracy", last_evaluation_.accuracy},
                 {"samples", last_evaluation_.samples},
                 {"seconds", last_evaluation_.seconds}}});
}

void Trainer::save_checkpoint() {
  if (task_.job.out.empty() || saved_step_ == step_) return;
  CheckpointContent content;
  content.weights = finite_weights();
  saved_step_ = step_;
  content.facts.step = step_;
  content.facts.epoch = step_ / task_.updates_per_epoch();
  content.facts.samples_into_epoch = step_ % task_.updates_per_epoch() * task_.plan.mini_batch;
  content.facts.seed = task_.job.seed;
  content.facts.alignment = task_.plan.alignment;
  content.facts.optimizer = task_.plan.optimizer;
  content.facts.model_digest = task_.plan.model_digest;
  content.facts.plan_digest = digest_of(text_of(task_.plan));
  content.facts.attributes = {{"data", task_.job.data}, {kSinceRecord, text_of(since_record_)}, {kInEpoch, text_of(in_epoch_)}};
  content.optimizer = read_optimizer(segment_, *task_.graph, task_.plan.optimizer, device_.compute_type());
  content.model_text = text_of(task_.plan.model);
  const std::filesystem::path folder =
      write_checkpoint(std::filesystem::path(task_.job.out) / "checkpoints", content, task_.job.keep_checkpoints);
  write_record({"checkpoint", {{"step", step_}, {"path", "checkpoints/" + folder.filename().string()}}});
  if (metrics_file_) metrics_file_->sync();
}

TrainingOutcome Trainer::run() {
  const Clock::time_point started = Clock::now();
  start();
  const Job& job = task_.job;
  const int64_t total = task_.total_updates();
  const int64_t per_epoch = task_.updates_per_epoch();
  const int64_t evaluate_every = updates_between_evaluations();
  TrainingOutcome outcome;
  outcome.reason = job.steps > 0 ? "steps" : "epochs";
  Progress progress("training", total);
  progress.advance(step_);
  while (step_ < total) {
    const Clock::time_point update_started = Clock::now();
    one_update();
    training_seconds_ += seconds_since(update_started);
    progress.advance(1, last_evaluation_.samples > 0
                            ? fmt::format("epoch {:.1f}, test accuracy {:.2f}%", epoch_now(), 100 * last_evaluation_.accuracy)
                            : fmt::format("epoch {:.1f}", epoch_now()));
    if (step_ % options_.log_every == 0 && since_record_.samples > 0) report_progress(false);
    if (step_ % per_epoch == 0) {
      outcome.train_loss = mean(in_epoch_.loss, in_epoch_.samples);
      report_progress(true);
    }
    if (evaluate_every > 0 && step_ % evaluate_every == 0) evaluate_now();
    if (job.checkpoint_every > 0 && step_ % job.checkpoint_every == 0) save_checkpoint();
    if (options_.stop != nullptr && options_.stop->load()) {
      outcome.reason = "signal";
      break;
    }
    if (job.time_limit_seconds > 0 && seconds_since(started) >= job.time_limit_seconds) {
      outcome.reason = "time limit";
      break;
    }
  }
  progress.finish();
  if (in_epoch_.samples > 0) outcome.train_loss = mean(in_epoch_.loss, in_epoch_.samples);
  evaluate_now();
  save_checkpoint();
  outcome.steps = step_;
  outcome.epochs = epoch_now();
  outcome.test = last_evaluation_;
  outcome.seconds = seconds_since(started);
  outcome.images_per_second = static_cast<double>(trained_samples_) / std::max(training_seconds_, 1e-9);
  outcome.weights_digest = weights_digest(finite_weights());
  write_record({"done",
                {{"step", step_},
                 {"epoch", epoch_now()},
                 {"loss", last_evaluation_.loss},
                 {"accuracy", last_evaluation_.accuracy},
                 {"images_per_second", outcome.images_per_second},
                 {"seconds", outcome.seconds},
                 {"peak_memory_bytes", peak_memory_bytes()},
                 {"parameters", task_.graph->parameter_count()},
                 {"weights_digest", outcome.weights_digest},
                 {"reason", outcome.reason}}});
  if (metrics_file_) metrics_file_->sync();
  return outcome;
}

TrainingForecast Trainer::forecast() {
  TrainingForecast forecast;
  forecast.updates_per_epoch = task_.updates_per_epoch();
  forecast.total_updates = task_.total_updates();
  segment_.initialize(task_.job.seed);
  rehearsing_ = true;
  one_update();  // allocates; not counted
  const Clock::time_point started = Clock::now();
  constexpr double kLongEnough = 1.0;
  constexpr int64_t kMost = 20;
  do {
    one_update();
    ++forecast.measured_updates;
  } while (forecast.measured_updates < kMost && seconds_since(started) < kLongEnough);
  forecast.seconds_per_update = seconds_since(started) / static_cast<double>(forecast.measured_updates);
  forecast.memory = segment_.memory();
  return forecast;
}

}  // namespace millrace
