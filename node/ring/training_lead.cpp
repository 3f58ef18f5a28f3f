#include "node/ring/training_lead.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/train/best_checkpoint.h"
#include "core/train/data_facts.h"
#include "core/train/weights_digest.h"

namespace millrace {
namespace {

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

constexpr int64_t kMostSavesUnderWay = 4;

// The scores so far of a record to come: a checkpoint holds them, so that a resumed training reports what an unbroken one
// does. The sum is written so that reading it back gives the same bits.
constexpr const char* kSinceRecord = "score_since_record";
constexpr const char* kInEpoch = "score_in_epoch";
constexpr const char* kEarlyStop = "early_stop";

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

}  // namespace

bool stopped_before_its_first_checkpoint(const std::filesystem::path& run) {
  if (!std::filesystem::exists(run / "job.textproto")) return false;
  const std::filesystem::path checkpoints = run / "checkpoints";
  if (!std::filesystem::is_directory(checkpoints)) return true;
  const auto is_leftover = [](const std::filesystem::directory_entry& entry) { return entry.path().extension() == ".partial"; };
  return std::all_of(std::filesystem::directory_iterator(checkpoints), std::filesystem::directory_iterator(), is_leftover);
}

TrainingLead::TrainingLead(const TrainingTask& task, const Course& course, LeadOptions options)
    : task_(task), course_(course), options_(std::move(options)), judge_(task.job) {
  reason_ = task.job.steps > 0 ? "steps" : "epochs";
  if (options_.log_every <= 0) options_.log_every = std::max<int64_t>(1, course.updates_per_epoch() / 10);
}

TrainingLead::~TrainingLead() = default;

// 0: at the end alone, which also stands for more updates than the training has.
int64_t TrainingLead::updates_between_evaluations() const {
  const double updates = task_.job.evaluate_every_epochs * static_cast<double>(course_.updates_per_epoch());
  if (updates <= 0 || updates > static_cast<double>(course_.total_updates())) return 0;
  return std::max<int64_t>(1, std::llround(updates));
}

void TrainingLead::start(const CheckpointContent* resumed) {
  const std::filesystem::path out = task_.job.out;
  if (resumed != nullptr) {
    first_ = updated_ = step_ = saved_step_ = resumed->facts.step;
    since_record_ = score_from(resumed->facts.attributes, kSinceRecord);
    in_epoch_ = score_from(resumed->facts.attributes, kInEpoch);
    log::info("resumed at step {} (epoch {:.2f})", step_, course_.epoch_at(step_));
    recall_evaluations(*resumed);
    const LearningRateKind kind = task_.job.learning_rate.kind;
    if (kind == LearningRateKind::kCosine || kind == LearningRateKind::kPolynomial)
      log::info("the learning rate goes on at {:.4g}, to reach its end with epoch {:.2f}", course_.learning_rate(step_),
                course_.epoch_at(course_.total_updates()));
    if (step_ >= course_.total_updates())
      log::warning("nothing is left to train, the run has its {} updates; ask for more with --epochs or --steps", course_.total_updates());
    if (options_.saved) options_.saved(out / "checkpoints" / checkpoint_name(step_));
    const std::filesystem::path fingerprint = out / "fingerprint.json";
    if (!std::filesystem::exists(fingerprint) || read_text(fingerprint) != json_object(options_.fingerprint))
      log::warning("{} tells of another program, processor or kernel table: training continues, not bitwise as before",
                   fingerprint.string());
  }
  const bool nothing_left = resumed != nullptr && step_ >= course_.total_updates();
  if (nothing_left) {  // what there is, is evaluated
    last_ = step_ - 1;
    decisions_[last_] = {.last = true, .evaluate = true, .checkpoint = false};
    stage_ = Stage::kEvaluation;
    weights_digest_ = weights_digest(resumed->weights);
  }
  if (!out.empty()) {
    make_folders(out);
    metrics_file_ = resumed != nullptr ? std::make_unique<MetricsFile>(MetricsFile::resumed(out / "metrics.jsonl", step_, nothing_left))
                                       : std::make_unique<MetricsFile>(out / "metrics.jsonl");
    if (options_.log_samples) sample_log_ = std::make_unique<SampleLog>(out / kSampleLogName, step_);
    write_documents();
  }
  progress_ = std::make_unique<Progress>("training", course_.total_updates());
  progress_->advance(step_);
  started_ = Clock::now();
}

// What the run is made of, as it is trained from now on.
void TrainingLead::write_documents() const {
  const std::filesystem::path out = task_.job.out;
  save(task_.job, out / "job.textproto");
  save(task_.plan, out / "plan.textproto");
  write_atomically(out / "fingerprint.json", json_object(options_.fingerprint));
}

Error TrainingLead::explained(const Error& error) {
  try {
    // Where records cannot be written any more, a later checkpoint would leave a gap between them for good.
    while (!cannot_record_) {
      if (writing_.valid()) writing_.wait();
      if (!step()) break;
    }
  } catch (const Error&) {  // the first error says more
  }
  if (saved_step_ < 0) return error;
  return {error.code(), fmt::format("{}. The checkpoint of step {} is intact", error.what(), saved_step_)};
}

int64_t TrainingLead::saves_under_way() const {
  return std::ranges::count_if(decisions_, [](const auto& entry) { return entry.second.checkpoint; });
}

void TrainingLead::recall_evaluations(const CheckpointContent& resumed) {
  if (const auto found = resumed.facts.attributes.find(kEarlyStop); found != resumed.facts.attributes.end()) judge_.restore(found->second);
  if (judge_.gives_up()) {
    stop_from_ = judge_.gave_up_at() - 1 + updates_until_judged();
    if (step_ > stop_from_) {
      log::info("the run had ended by early stop; its patience begins anew");
      judge_.begin_anew();
      stop_from_ = -1;
    }
  }
  if (task_.job.keep_best == EvaluationMetric::kNone) return;
  if (const auto value = best_kept(std::filesystem::path(task_.job.out) / "best", task_.job.keep_best)) judge_.set_kept(*value);
}

// From an evaluation's update to the first mini-batch whose decision can wait for what it says, without anything standing still:
// device 0 begins that one after the update. In alignments that do not drain others are under way by then. A fact of the plan, so
// that training ends at the same update however fast anything is.
int64_t TrainingLead::updates_until_judged() const {
  const int64_t n = task_.plan.micro_batches();
  return drains(task_.plan.alignment) ? 1 : 1 + (n + task_.plan.windows.front() - 2) / n;
}

bool TrainingLead::awaits_judgement(int64_t mini_batch) const {
  return !unjudged_.empty() && *unjudged_.begin() + updates_until_judged() <= mini_batch;
}

void TrainingLead::judge(int64_t mini_batch) {
  judge_.hear(step_, last_evaluation_);
  unjudged_.erase(mini_batch);
  if (judge_.kept_is_best()) best_ = mini_batch;
  if (!judge_.gives_up() || stop_from_ >= 0) return;
  stop_from_ = mini_batch + updates_until_judged();
  if (last_ < 0) log::info("{}: training ends with step {}", judge_.reason(), stop_from_ + 1);
}

std::optional<Decision> TrainingLead::decide(int64_t mini_batch) {
  if (awaits_judgement(mini_batch)) return std::nullopt;
  const Job& job = task_.job;
  const int64_t step = mini_batch + 1;
  const int64_t evaluate_every = updates_between_evaluations();
  Decision decision;
  decision.last = step >= (options_.stop_after > 0 ? options_.stop_after : course_.total_updates());
  const std::chrono::duration<double> running = Clock::now() - started_;
  if (!decision.last && stop_) {
    decision.last = interrupted_ = true;
    reason_ = "signal";
  } else if (!decision.last && job.time_limit_seconds > 0 && running.count() >= job.time_limit_seconds) {
    decision.last = interrupted_ = true;
    reason_ = "time limit";
  } else if (!decision.last && stop_from_ >= 0 && mini_batch >= stop_from_) {
    decision.last = true;
    reason_ = "early stop";
  }
  decision.evaluate = decision.last || (evaluate_every > 0 && (step + course_.ahead()) % evaluate_every == 0);
  const bool due = job.checkpoint_every > 0 && step % job.checkpoint_every == 0;
  // The disk is slower than the training: no more shares are collected than memory should hold.
  const bool perhaps_best = decision.evaluate && job.keep_best != EvaluationMetric::kNone;
  if ((due || perhaps_best) && saves_under_way() >= kMostSavesUnderWay) return std::nullopt;
  const bool wanted = decision.last || (!job.out.empty() && (due || checkpoint_now_));
  decision.checkpoint = wanted || perhaps_best;
  checkpoint_now_ = checkpoint_now_ && !wanted;
  if (perhaps_best && !wanted) only_if_best_.insert(mini_batch);
  if (decision.evaluate && job.early_stop.patience > 0) unjudged_.insert(mini_batch);
  if (decision.last) last_ = mini_batch;
  decisions_[mini_batch] = decision;
  if (options_.announce) options_.announce(mini_batch, decision);
  return decision;
}

void TrainingLead::updated(int64_t mini_batch) {
  updated_ = mini_batch + 1;
  updated_at_[mini_batch] = Clock::now();
}

void TrainingLead::evaluated(int64_t mini_batch, const Score& score) {
  evaluations_[mini_batch] = score;
  const auto since = updated_at_.find(mini_batch);
  const std::chrono::duration<double> seconds = since == updated_at_.end() ? Clock::duration::zero() : Clock::now() - since->second;
  evaluation_seconds_[mini_batch] = seconds.count();
}

void TrainingLead::loaded(int64_t s, std::span<const int64_t> samples) {
  if (!options_.log_samples) return;
  std::vector<int64_t>& all = samples_[s / task_.plan.micro_batches()];
  all.insert(all.end(), samples.begin(), samples.end());
}

void TrainingLead::saved(int64_t mini_batch, SaveAssembler& content) { content.move_into(contents_[mini_batch]); }

bool TrainingLead::step() {
  while (report()) continue;
  return writing_.valid();
}

bool TrainingLead::finished() {
  step();
  return last_ >= 0 && step_ > last_ && stage_ == Stage::kScore;
}

// One stage of the next update that is not reported; false when its news are not here yet.
bool TrainingLead::report() {
  switch (stage_) {
    case Stage::kScore: return report_score();
    case Stage::kEvaluation: return report_evaluation();
    case Stage::kCheckpoint: return begin_checkpoint();
    case Stage::kWriting: return end_checkpoint();
  }
  return false;
}

bool TrainingLead::report_score() {
  const int64_t mini_batch = step_;
  const auto found = scores_.find(mini_batch);
  if (found == scores_.end() || updated_ <= mini_batch) return false;
  const Score score = found->second;
  scores_.erase(found);
  if (const auto norm = norms_.find(mini_batch); norm != norms_.end()) {
    gradient_norm_ = norm->second;
    norms_.erase(norm);
  }
  ++step_;
  if (sample_log_) {
    try {
      sample_log_->write(step_, samples_[mini_batch]);
    } catch (...) {
      cannot_record_ = true;
      throw;
    }
    samples_.erase(mini_batch);
  }
  since_record_ += score;
  in_epoch_ += score;
  trained_samples_ += score.samples;
  progress_->advance(1, last_evaluation_.samples > 0
                            ? fmt::format("epoch {:.1f}, test accuracy {:.2f}%", course_.epoch_at(step_), 100 * last_evaluation_.accuracy)
                            : fmt::format("epoch {:.1f}", course_.epoch_at(step_)));
  if (step_ % options_.log_every == 0 && since_record_.samples > 0) report_step();
  if (course_.updates_into_epoch(step_) == 0) report_epoch();
  updated_at_.erase(updated_at_.begin(), updated_at_.lower_bound(mini_batch));
  stage_ = Stage::kEvaluation;
  return true;
}

void TrainingLead::report_step() {
  const std::chrono::duration<double> running = Clock::now() - started_;
  const double training = running.count() - seconds_evaluating_;
  MetricsRecord record{.event = "step",
                       .values = {{"step", step_},
                                  {"epoch", course_.epoch_at(step_)},
                                  {"loss", mean(since_record_.loss, since_record_.samples)},
                                  {"accuracy", mean(static_cast<double>(since_record_.correct), since_record_.samples)},
                                  {"samples", since_record_.samples},
                                  {"learning_rate", rate_of_last()}}};
  if (gradient_norm_ >= 0) record.values.push_back({"gradient_norm", gradient_norm_});
  record.values.push_back({"images_per_second", static_cast<double>(since_record_.samples) / std::max(training - recorded_seconds_, 1e-9)});
  recorded_seconds_ = training;
  since_record_ = Score{};
  write(record);
}

void TrainingLead::report_epoch() {
  train_loss_ = mean(in_epoch_.loss, in_epoch_.samples);
  write({"epoch",
         {{"step", step_},
          {"epoch", course_.epoch_at(step_)},
          {"loss", train_loss_},
          {"accuracy", mean(static_cast<double>(in_epoch_.correct), in_epoch_.samples)},
          {"samples", in_epoch_.samples},
          {"learning_rate", rate_of_last()}}});
  in_epoch_ = Score{};
}

bool TrainingLead::report_evaluation() {
  const int64_t mini_batch = step_ - 1;
  const Decision& decision = decisions_.at(mini_batch);
  if (!decision.evaluate) {
    stage_ = Stage::kCheckpoint;
    return true;
  }
  // Weights that are no longer finite are named first: they say more than a loss.
  if (decision.checkpoint && !contents_.contains(mini_batch)) return false;
  if (decision.checkpoint) require_finite(contents_.at(mini_batch).weights);
  const auto found = evaluations_.find(mini_batch);
  if (found == evaluations_.end()) return false;
  const Score score = found->second;
  last_evaluation_ = {.loss = mean(score.loss, score.samples),
                      .accuracy = mean(static_cast<double>(score.correct), score.samples),
                      .samples = score.samples,
                      .seconds = evaluation_seconds_[mini_batch]};
  seconds_evaluating_ += last_evaluation_.seconds;
  evaluations_.erase(found);
  ++evaluations_made_;
  evaluation_seconds_.erase(mini_batch);
  if (!std::isfinite(last_evaluation_.loss)) not_finite("the loss of the evaluation is not finite");
  judge(mini_batch);
  MetricsRecord record{"evaluation",
                       {{"step", step_},
                        {"epoch", course_.epoch_at(step_)},
                        {"loss", last_evaluation_.loss},
                        {"accuracy", last_evaluation_.accuracy},
                        {"samples", last_evaluation_.samples},
                        {"seconds", last_evaluation_.seconds}}};
  if (const auto bits = bits_per_character(last_evaluation_.loss, task_.data.test)) record.values.push_back({"bits_per_character", *bits});
  write(record);
  stage_ = Stage::kCheckpoint;
  return true;
}

void TrainingLead::complete(CheckpointContent& content) const {
  content.facts.step = step_;
  content.facts.epoch = course_.epochs_over(step_);
  content.facts.samples_into_epoch = course_.samples_into_epoch(step_);
  content.facts.seed = task_.job.seed;
  content.facts.alignment = task_.plan.alignment;
  content.facts.optimizer = task_.plan.optimizer;
  content.facts.model_digest = task_.plan.model_digest;
  content.facts.plan_digest = digest_of(text_of(task_.plan));
  content.facts.attributes = {{"data", task_.job.data}, {kSinceRecord, text_of(since_record_)}, {kInEpoch, text_of(in_epoch_)}};
  if (const std::string text = judge_.text(); !text.empty()) content.facts.attributes[kEarlyStop] = text;
  content.facts.attributes.merge(facts_of(task_.data.train));
  content.model_text = text_of(task_.plan.model);
}

bool TrainingLead::begin_checkpoint() {
  const int64_t mini_batch = step_ - 1;
  if (!decisions_.at(mini_batch).checkpoint) {
    decisions_.erase(mini_batch);
    stage_ = Stage::kScore;
    return true;
  }
  const auto found = contents_.find(mini_batch);
  if (found == contents_.end()) return false;
  auto content = std::make_shared<CheckpointContent>(std::move(found->second));
  contents_.erase(found);
  const bool is_best = best_ == mini_batch && task_.job.keep_best != EvaluationMetric::kNone;
  const bool wanted = only_if_best_.erase(mini_batch) == 0;
  if (!wanted && !is_best) {
    decisions_.erase(mini_batch);
    stage_ = Stage::kScore;
    return true;
  }
  require_finite(content->weights);
  complete(*content);
  if (mini_batch == last_) weights_digest_ = weights_digest(content->weights);
  if (task_.job.out.empty()) {
    decisions_.erase(mini_batch);
    stage_ = Stage::kScore;
    return true;
  }
  const std::filesystem::path out = task_.job.out;
  const Job& job = task_.job;
  writing_ = std::async(std::launch::async,
                        [content, out, wanted, is_best, metric = job.keep_best, value = judge_.kept(), keep = job.keep_checkpoints] {
                          std::filesystem::path made;
                          if (wanted) made = write_checkpoint(out / "checkpoints", *content, keep);
                          if (!is_best) return made;
                          mark_best(*content, metric, *value);
                          const std::filesystem::path best = keep_best_checkpoint(out / "best", *content);
                          return wanted ? made : best;
                        });
  stage_ = Stage::kWriting;
  return true;
}

bool TrainingLead::end_checkpoint() {
  if (!writing_.valid()) return false;  // it could not be written, which has been said
  if (writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
  const std::filesystem::path folder = writing_.get();
  const std::string kind = folder.parent_path().filename().string();  // "checkpoints", or "best" where that alone was written
  if (kind == "checkpoints") {
    saved_step_ = step_;
    if (options_.saved) options_.saved(folder);
  }
  write({"checkpoint", {{"step", step_}, {"path", kind + "/" + folder.filename().string()}}});
  if (metrics_file_) metrics_file_->sync();
  decisions_.erase(step_ - 1);
  stage_ = Stage::kScore;
  return true;
}

void TrainingLead::not_finite(std::string_view what) const {
  fail(ErrorCode::kNumeric, "step {}: {}; lower the learning rate (now {:g}) or clip the gradients (--clip-norm)", step_, what,
       rate_of_last());
}

// A relu turns NaN into 0 and so hides it from the loss: what is saved and reported is looked at itself.
void TrainingLead::require_finite(const TensorMap& weights) const {
  for (const auto& [name, tensor] : weights) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    if (std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) continue;
    not_finite(fmt::format("{} is no longer finite", name));
  }
}

void TrainingLead::write(const MetricsRecord& record) {
  try {
    for (MetricsSink* sink : options_.sinks) sink->write(record);
    if (metrics_file_) metrics_file_->write(record);
  } catch (...) {
    cannot_record_ = true;
    throw;
  }
}

TrainingOutcome TrainingLead::outcome() {
  progress_->finish();
  const std::chrono::duration<double> running = Clock::now() - started_;
  TrainingOutcome outcome;
  outcome.steps = step_;
  outcome.epochs = course_.epoch_at(step_);
  outcome.train_loss = in_epoch_.samples > 0 ? mean(in_epoch_.loss, in_epoch_.samples) : train_loss_;
  outcome.test = last_evaluation_;
  outcome.seconds = running.count();
  outcome.images_per_second = static_cast<double>(trained_samples_) / std::max(running.count() - seconds_evaluating_, 1e-9);
  outcome.reason = reason_;
  outcome.interrupted = interrupted_;
  outcome.weights_digest = weights_digest_;
  write({"done",
         {{"step", step_},
          {"epoch", course_.epoch_at(step_)},
          {"loss", last_evaluation_.loss},
          {"accuracy", last_evaluation_.accuracy},
          {"images_per_second", outcome.images_per_second},
          {"seconds", outcome.seconds},
          {"data_wait_seconds", static_cast<double>(task_.data_wait->load()) * 1e-9},
          {"peak_memory_bytes", peak_memory_bytes()},
          {"parameters", task_.graph->parameter_count()},
          {"weights_digest", outcome.weights_digest},
          {"reason", outcome.reason}}});
  if (metrics_file_) metrics_file_->sync();
  return outcome;
}

}  // namespace millrace
