#include "node/ring/training_lead.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/train/best_checkpoint.h"
#include "core/train/data_facts.h"
#include "core/train/weights_digest.h"

namespace millrace {
namespace {

// Formats aside: whoever resumes has asked for those of the run, and runs of earlier versions say nothing of them.
bool is_alike(const std::filesystem::path& file, nlohmann::json fingerprint) {
  if (!std::filesystem::exists(file)) return false;
  nlohmann::json found = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  if (!found.is_object()) return false;
  for (nlohmann::json* one : {&found, &fingerprint}) one->erase(kFormatsOfRun);
  return found == fingerprint;
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
    : task_(task),
      course_(course),
      options_(std::move(options)),
      records_(task, course,
               {.sinks = options_.sinks,
                .log_every = options_.log_every,
                .log_samples = options_.log_samples,
                .bar = options_.bar,
                .updates = options_.stop_after}),
      choices_(task, course, options_.stop_after) {}

void TrainingLead::resume(const CheckpointContent& content) {
  updated_ = step_ = saved_step_ = content.facts.step;
  records_.restore(content.facts.attributes);
  log::info("resumed at step {} (epoch {:.2f})", step_, course_.epoch_at(step_));
  choices_.restore(content);
  const LearningRateKind kind = task_.job.learning_rate.kind;
  if (kind == LearningRateKind::kCosine || kind == LearningRateKind::kPolynomial)
    log::info("the learning rate goes on at {:.4g}, to reach its end with epoch {:.2f}", course_.learning_rate(step_),
              course_.epoch_at(course_.total_updates()));
  if (step_ >= course_.total_updates())
    log::warning("nothing is left to train, the run has its {} updates; ask for more with --epochs or --steps", course_.total_updates());
  const std::filesystem::path out = task_.job.out;
  if (options_.saved) options_.saved(out / "checkpoints" / checkpoint_name(step_));
  const std::filesystem::path fingerprint = out / "fingerprint.json";
  if (!is_alike(fingerprint, options_.fingerprint))
    log::warning("{} tells of another program, processor or kernel table: training continues, not bitwise as before", fingerprint.string());
}

void TrainingLead::start(const CheckpointContent* resumed) {
  if (resumed != nullptr) resume(*resumed);
  const bool nothing_left = resumed != nullptr && step_ >= course_.total_updates();
  if (nothing_left) {  // what there is, is evaluated
    choices_.evaluate_last(step_ - 1);
    stage_ = Stage::kEvaluation;
    weights_digest_ = weights_digest(resumed->weights);
  }
  if (!task_.job.out.empty()) make_folders(task_.job.out);
  records_.open(step_, resumed != nullptr, nothing_left);
  if (!task_.job.out.empty()) write_documents();
}

// What the run is made of, as it is trained from now on.
void TrainingLead::write_documents() const {
  const std::filesystem::path out = task_.job.out;
  if (!options_.rates.empty()) write_atomically(out / kRatesOfRun, options_.rates);  // a run begins with its job, and plans with these
  save(task_.job, out / "job.textproto");
  save(task_.plan, out / "plan.textproto");
  write_atomically(out / "fingerprint.json", nlohmann::json(options_.fingerprint).dump(2) + "\n");
}

Error TrainingLead::explained(const Error& error) {
  try {
    // Where records cannot be written any more, a later checkpoint would leave a gap between them for good.
    while (!records_.incomplete()) {
      if (writing_.valid()) writing_.wait();
      if (!step()) break;
    }
  } catch (const Error&) {  // the first error says more
  }
  if (saved_step_ < 0) return error;
  return {error.code(), fmt::format("{}. The checkpoint of step {} is intact", error.what(), saved_step_)};
}

std::optional<Decision> TrainingLead::decide(int64_t mini_batch) {
  const std::optional<Decision> decision =
      choices_.decide(mini_batch, std::chrono::duration<double>(Clock::now() - options_.begun).count());
  if (decision && options_.announce) options_.announce(mini_batch, *decision);
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
  return choices_.last() >= 0 && step_ > choices_.last() && stage_ == Stage::kScore;
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

// This one is reported.
bool TrainingLead::next_update() {
  choices_.forget(step_ - 1);
  stage_ = Stage::kScore;
  return true;
}

bool TrainingLead::report_score() {
  const int64_t mini_batch = step_;
  if (!scores_.contains(mini_batch) || updated_ <= mini_batch) return false;
  const Score score = scores_.extract(mini_batch).mapped();
  const auto norm = norms_.extract(mini_batch);
  ++step_;
  records_.add_update(step_, score, norm ? std::optional(norm.mapped()) : std::nullopt, samples_[mini_batch]);
  samples_.erase(mini_batch);
  updated_at_.erase(updated_at_.begin(), updated_at_.lower_bound(mini_batch));
  stage_ = Stage::kEvaluation;
  return true;
}

bool TrainingLead::report_evaluation() {
  const int64_t mini_batch = step_ - 1;
  const Decision& decision = choices_.on(mini_batch);
  if (!decision.evaluate) {
    stage_ = Stage::kCheckpoint;
    return true;
  }
  // Weights that are no longer finite are named first: they say more than a loss.
  if (decision.checkpoint && !contents_.contains(mini_batch)) return false;
  if (decision.checkpoint) require_finite(contents_.at(mini_batch).weights);
  if (!evaluations_.contains(mini_batch)) return false;
  const Score score = evaluations_.extract(mini_batch).mapped();
  const Evaluation evaluation = evaluation_of(score, evaluation_seconds_.extract(mini_batch).mapped());
  ++evaluations_made_;
  if (!std::isfinite(evaluation.loss)) not_finite("the loss of the evaluation is not finite");
  choices_.take_evaluation(mini_batch, evaluation);
  records_.add_evaluation(step_, evaluation);
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
  content.facts.attributes = records_.attributes();
  content.facts.attributes["data"] = task_.job.data;
  if (const auto formats = options_.fingerprint.find(kFormatsOfRun); formats != options_.fingerprint.end())
    content.facts.attributes[kFormatsOfRun] = formats->second;
  content.facts.attributes.merge(choices_.attributes());
  content.facts.attributes.merge(facts_of(task_.data.train));
  content.model_text = text_of(task_.plan.model);
}

bool TrainingLead::begin_checkpoint() {
  const int64_t mini_batch = step_ - 1;
  if (!choices_.on(mini_batch).checkpoint) return next_update();
  if (!contents_.contains(mini_batch)) return false;
  auto content = std::make_shared<CheckpointContent>(std::move(contents_.extract(mini_batch).mapped()));
  const bool is_best = choices_.is_best(mini_batch), wanted = choices_.is_wanted(mini_batch);
  if (!wanted && !is_best) return next_update();
  require_finite(content->weights);
  complete(*content);
  if (mini_batch == choices_.last()) weights_digest_ = weights_digest(content->weights);
  if (task_.job.out.empty()) return next_update();
  const std::filesystem::path out = task_.job.out;
  const Job& job = task_.job;
  writing_ = std::async(std::launch::async, [content, out, wanted, is_best, metric = job.keep_best, value = choices_.best_value(),
                                             keep = job.keep_checkpoints] {
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
  records_.add_checkpoint(step_, kind + "/" + folder.filename().string());
  return next_update();
}

void TrainingLead::not_finite(std::string_view what) const {
  fail(ErrorCode::kNumeric, "step {}: {}; lower the learning rate (now {:g}) or clip the gradients (--clip-norm)", step_, what,
       records_.learning_rate(step_));
}

// A relu turns NaN into 0 and so hides it from the loss: what is saved and reported is looked at itself.
void TrainingLead::require_finite(const TensorMap& weights) const {
  for (const auto& [name, tensor] : weights) {
    std::vector<double> values(to_size(tensor.elements()));
    copy_values(tensor, std::span<double>(values), name);
    if (std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) continue;
    not_finite(fmt::format("{} is no longer finite", name));
  }
}

TrainingOutcome TrainingLead::outcome() {
  TrainingOutcome outcome;
  outcome.steps = step_;
  outcome.reason = choices_.reason();
  outcome.interrupted = choices_.interrupted();
  outcome.weights_digest = weights_digest_;
  records_.finish(outcome);
  return outcome;
}

}  // namespace millrace
