// Evaluation: the whole of a data set, in order, without touching weights or statistics.
#include "core/train/evaluate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/decode/ctc.h"
#include "core/decode/edit_distance.h"
#include "core/graph/step_map.h"
#include "core/train/feeding.h"

namespace millrace {
namespace {

// What the samples of sequence data add up to.
class SequenceFigures {
 public:
  SequenceFigures(const Graph& graph, const Dataset& data, const EvaluationOptions& options) : form_(data.label_form), beam_(options.beam) {
    if (!data.sequences) form_ = LabelForm::kOne;
    if (form_ == LabelForm::kRow && graph.loss() >= 0)
      if (const auto* ctc = std::get_if<CtcLoss>(&graph.node(graph.loss()).layer.operation)) blank_ = ctc->blank;
  }

  bool wants_scores() const { return form_ != LabelForm::kOne; }

  void add(const SampleResult& result) {
    if (form_ == LabelForm::kPerStep) add_steps(result);
    if (form_ == LabelForm::kRow) add_row(result);
  }

  void report(double loss_sum, SequenceEvaluation& evaluation) const {
    if (form_ == LabelForm::kPerStep && steps_ > 0) {
      evaluation.bits_per_character = loss_sum / std::numbers::ln2 / static_cast<double>(steps_);
      evaluation.step_accuracy = static_cast<double>(right_) / static_cast<double>(steps_);
    }
    if (form_ == LabelForm::kRow) evaluation.character_error_rate = errors_.rate();
  }

 private:
  void add_steps(const SampleResult& result) {
    for (int64_t position = 0; position < result.positions_each; ++position) {
      const int32_t label = item(result.labels, position);
      if (label == kNoLabel) continue;
      ++steps_;
      right_ += result.best_class(position) == label ? 1 : 0;
    }
  }
  void add_row(const SampleResult& result) {
    const CtcScores scores{result.scores, result.classes, result.positions_each, result.positions, blank_};
    const std::vector<int32_t> said = beam_ > 0 ? beam_search(scores, beam_).labels : best_path(scores);
    const auto end = std::ranges::find(result.labels, kNoLabel);
    const std::span<const int32_t> wanted(result.labels.begin(), end);
    errors_.add(edit_distance(said, wanted), wanted.size());
  }

  LabelForm form_;
  int64_t beam_;
  int64_t blank_ = 0;
  int64_t steps_ = 0;
  int64_t right_ = 0;
  CharacterErrors errors_;
};

}  // namespace

std::optional<double> bits_per_character(double loss, const Dataset& data) {
  if (!data.sequences || data.label_form != LabelForm::kPerStep || data.lengths_differ) return std::nullopt;
  return loss / std::numbers::ln2 / static_cast<double>(data.labels_each);
}

int64_t SampleResult::best_class(int64_t position) const {
  const auto score = [&](int64_t c) { return item(scores, c * positions_each + position); };
  int64_t best = 0;
  for (int64_t c = 1; c < classes; ++c)
    if (score(c) > score(best)) best = c;
  return best;
}

struct EvaluationSum::Figures : SequenceFigures {
  using SequenceFigures::SequenceFigures;
};

EvaluationSum::EvaluationSum(const Graph& graph, const Dataset& data, int64_t micro_batch, const EvaluationOptions& options,
                             SampleVisitor visit)
    : graph_(graph),
      visit_(std::move(visit)),
      steps_(step_map_of(graph, graph.scores())),
      scores_(to_size(graph.shape_of(graph.scores()).elements() * micro_batch)),
      figures_(std::make_unique<Figures>(graph, data, options)) {
  if (options.beam < 0) fail(ErrorCode::kUsage, "a beam of {} prefixes; at least 1 is needed, or 0 for the best path", options.beam);
}

EvaluationSum::~EvaluationSum() = default;

void EvaluationSum::add(SegmentExecutor& segment, const Batch& loaded) {
  if (!visit_ && !figures_->wants_scores()) return;
  segment.read_scores(false, scores_);
  const Shape& shape = graph_.shape_of(graph_.scores());
  const auto each = to_size(loaded.labels_each), elements = to_size(shape.elements());
  for (size_t i = 0; i < loaded.sample_ids.size(); ++i) {
    const SampleResult result{.sample = loaded.sample_ids[i],
                              .labels = loaded.labels.subspan(i * each, each),
                              .scores = std::span<const float>(scores_).subspan(i * elements, elements),
                              .positions = loaded.lengths.empty() ? shape.plane() : steps_.steps(loaded.lengths[i]),
                              .positions_each = shape.plane(),
                              .classes = shape.channels};
    figures_->add(result);
    if (visit_) visit_(result);
  }
}

SequenceEvaluation EvaluationSum::finish(const Score& score) const {
  SequenceEvaluation evaluation;
  const auto samples = static_cast<double>(std::max<int64_t>(1, score.samples));
  evaluation.basic.samples = score.samples;
  evaluation.basic.loss = score.loss / samples;
  evaluation.basic.accuracy = static_cast<double>(score.correct) / samples;
  figures_->report(score.loss, evaluation);
  return evaluation;
}

SequenceEvaluation evaluate_fully(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data,
                                  const DataTransform& transform, const EvaluationOptions& options, const SampleVisitor& visit) {
  const auto started = std::chrono::steady_clock::now();
  EvaluationSum sum(graph, data, plan.micro_batch, options, visit);
  const std::unique_ptr<Loader> loader = evaluation_loader(data, transform, plan);
  HeldBatch held;
  Score total;
  for (int64_t s = 0; s < evaluation_micro_batches(data, plan); ++s) {
    const Batch& loaded = loader->load(s);
    held.take(loaded, {.training = false, .micro_batch = plan.micro_batch});
    segment.forward(held.view(), loaded.pixels, nullptr, &total);
    sum.add(segment, loaded);
  }
  SequenceEvaluation evaluation = sum.finish(total);
  evaluation.basic.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return evaluation;
}

// Of a sample with several places the visitor sees the last one that has a label; rows of labels have none.
Evaluation evaluate(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data, const DataTransform& transform,
                    const ScoreVisitor& visit) {
  std::vector<float> column(to_size(graph.classes()));
  const auto last_place = [&](const SampleResult& result) {
    int64_t position = result.positions_each - 1;
    if (data.label_form == LabelForm::kPerStep && data.sequences)
      while (position > 0 && item(result.labels, position) == kNoLabel) --position;
    for (size_t c = 0; c < column.size(); ++c) column[c] = result.scores[c * to_size(result.positions_each) + to_size(position)];
    const bool row = data.label_form == LabelForm::kRow && data.sequences != nullptr;
    const size_t label = result.labels.size() == 1 ? 0 : to_size(position);
    visit(result.sample, row ? kNoLabel : result.labels[label], column);
  };
  return evaluate_fully(segment, graph, plan, data, transform, {}, visit ? SampleVisitor(last_place) : SampleVisitor()).basic;
}

}  // namespace millrace
