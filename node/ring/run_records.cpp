#include "node/ring/run_records.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"
#include "core/train/data_facts.h"

namespace millrace {
namespace {

// The sum of a score is written so that reading it back gives the same bits.
constexpr const char* kSinceRecord = "score_since_record";
constexpr const char* kInEpoch = "score_in_epoch";

int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

double mean(double sum, int64_t count) { return sum / static_cast<double>(std::max<int64_t>(1, count)); }
double mean_loss(const Score& score) { return mean(score.loss, score.samples); }
double accuracy(const Score& score) { return mean(static_cast<double>(score.correct), score.samples); }

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

Evaluation evaluation_of(const Score& score, double seconds) {
  return {.loss = mean_loss(score), .accuracy = accuracy(score), .samples = score.samples, .seconds = seconds};
}

RunRecords::RunRecords(const TrainingTask& task, const Course& course, const RecordOptions& options)
    : task_(task), course_(course), options_(options) {
  if (options_.log_every <= 0) options_.log_every = std::max<int64_t>(1, course.updates_per_epoch() / 10);
}

std::map<std::string, std::string> RunRecords::attributes() const {
  return {{kSinceRecord, text_of(since_record_)}, {kInEpoch, text_of(in_epoch_)}};
}

void RunRecords::restore(const std::map<std::string, std::string>& attributes) {
  since_record_ = score_from(attributes, kSinceRecord);
  in_epoch_ = score_from(attributes, kInEpoch);
}

void RunRecords::open(int64_t step, bool resumed, bool evaluates_again) {
  if (const std::filesystem::path out = task_.job.out; !out.empty()) {
    const std::filesystem::path metrics = out / "metrics.jsonl";
    metrics_file_ = resumed ? std::make_unique<MetricsFile>(MetricsFile::resumed(metrics, step, evaluates_again))
                            : std::make_unique<MetricsFile>(metrics);
    if (options_.log_samples) sample_log_ = std::make_unique<SampleLog>(out / kSampleLogName, step);
  }
  progress_ = std::make_unique<Progress>(options_.bar, options_.updates > 0 ? options_.updates : course_.total_updates());
  progress_->advance(step);
  started_ = Clock::now();
}

double RunRecords::seconds_running() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

void RunRecords::add_update(int64_t step, const Score& score, std::optional<double> gradient_norm, std::span<const int64_t> samples) {
  if (gradient_norm) gradient_norm_ = *gradient_norm;
  if (sample_log_) noting_failure([&] { sample_log_->write(step, samples); });
  since_record_ += score;
  in_epoch_ += score;
  trained_samples_ += score.samples;
  progress_->advance(1, last_evaluation_.samples > 0
                            ? fmt::format("epoch {:.1f}, test accuracy {:.2f}%", course_.epoch_at(step), 100 * last_evaluation_.accuracy)
                            : fmt::format("epoch {:.1f}", course_.epoch_at(step)));
  if (step % options_.log_every == 0 && since_record_.samples > 0) write_step(step);
  if (course_.updates_into_epoch(step) == 0) write_epoch(step);
}

void RunRecords::write_step(int64_t step) {
  const double training = seconds_running() - seconds_evaluating_;
  MetricsRecord record{.event = "step",
                       .values = {{"step", step},
                                  {"epoch", course_.epoch_at(step)},
                                  {"loss", mean_loss(since_record_)},
                                  {"accuracy", accuracy(since_record_)},
                                  {"samples", since_record_.samples},
                                  {"learning_rate", learning_rate(step)}}};
  if (gradient_norm_ >= 0) record.values.push_back({"gradient_norm", gradient_norm_});
  record.values.push_back({"images_per_second", static_cast<double>(since_record_.samples) / std::max(training - recorded_seconds_, 1e-9)});
  recorded_seconds_ = training;
  since_record_ = Score{};
  write(record);
}

void RunRecords::write_epoch(int64_t step) {
  train_loss_ = mean_loss(in_epoch_);
  write({"epoch",
         {{"step", step},
          {"epoch", course_.epoch_at(step)},
          {"loss", train_loss_},
          {"accuracy", accuracy(in_epoch_)},
          {"samples", in_epoch_.samples},
          {"learning_rate", learning_rate(step)}}});
  in_epoch_ = Score{};
}

void RunRecords::add_evaluation(int64_t step, const Evaluation& evaluation) {
  last_evaluation_ = evaluation;
  seconds_evaluating_ += evaluation.seconds;
  MetricsRecord record{"evaluation",
                       {{"step", step},
                        {"epoch", course_.epoch_at(step)},
                        {"loss", evaluation.loss},
                        {"accuracy", evaluation.accuracy},
                        {"samples", evaluation.samples},
                        {"seconds", evaluation.seconds}}};
  if (const auto bits = bits_per_character(evaluation.loss, task_.data.test)) record.values.push_back({"bits_per_character", *bits});
  write(record);
}

void RunRecords::add_checkpoint(int64_t step, const std::string& path) {
  write({"checkpoint", {{"step", step}, {"path", path}}});
  if (metrics_file_) metrics_file_->sync();
}

template <typename Write>
void RunRecords::noting_failure(const Write& write) {
  try {
    write();
  } catch (...) {
    incomplete_ = true;
    throw;
  }
}

void RunRecords::write(const MetricsRecord& record) {
  noting_failure([&] {
    for (MetricsSink* sink : options_.sinks) sink->write(record);
    if (metrics_file_) metrics_file_->write(record);
  });
}

void RunRecords::finish(TrainingOutcome& outcome) {
  progress_->finish();
  const double running = seconds_running();
  outcome.epochs = course_.epoch_at(outcome.steps);
  outcome.train_loss = in_epoch_.samples > 0 ? mean_loss(in_epoch_) : train_loss_;
  outcome.test = last_evaluation_;
  outcome.seconds = running;
  outcome.images_per_second = static_cast<double>(trained_samples_) / std::max(running - seconds_evaluating_, 1e-9);
  write({"done",
         {{"step", outcome.steps},
          {"epoch", outcome.epochs},
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
}

}  // namespace millrace
