// What a network makes of a data set: loss and accuracy and, where the data is sequences, what else there is to say.
//
//   const Evaluation found = evaluate(segment, graph, plan, data.test, transform);
//   const SequenceEvaluation found = evaluate_fully(segment, graph, plan, data.test, transform);
//   if (found.bits_per_character) log::info("{:.3f} bits per character", *found.bits_per_character);
//
// A label at every step: bits per character, the mean loss of a labelled step divided by ln 2, and the share of steps whose
// label is the first best score (accuracy itself asks about a sample's last step). Rows of labels: character error rate, the
// edits that lead from the best path's labels to the true ones, over the true ones; with a beam, from the best prefix found.
// Numbers are measured over all of the data, in order. node/ring/ring_evaluator.h does the same on a ring.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/data/loader.h"
#include "core/graph/step_map.h"
#include "core/train/executor.h"
#include "core/train/task.h"

namespace millrace {

struct Evaluation {
  double loss = 0;      // mean per sample
  double accuracy = 0;  // 0 to 1
  int64_t samples = 0;
  double seconds = 0;  // measured
};

// All of `data` through the segment in evaluation mode, in order; `visit` (may be empty) sees each sample's scores.
using ScoreVisitor = std::function<void(int64_t sample, int32_t label, std::span<const float> scores)>;
Evaluation evaluate(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data, const DataTransform& transform,
                    const ScoreVisitor& visit = {});

struct SequenceEvaluation {
  Evaluation basic;
  std::optional<double> bits_per_character;
  std::optional<double> step_accuracy;         // 0 to 1
  std::optional<double> character_error_rate;  // 0 and more
};

// From the mean loss of a sample, where every one has a label at each of its steps; nothing for other data.
std::optional<double> bits_per_character(double loss, const Dataset& data);

// One sample as the network saw it.
struct SampleResult {
  int64_t sample = 0;
  std::span<const int32_t> labels;
  std::span<const float> scores;  // [class][position]
  int64_t positions = 1;          // of the scores, the sample's own: those behind are padding
  int64_t positions_each = 1;     // of the scores, padding included
  int64_t classes = 0;
  // The first best class at a position.
  int64_t best_class(int64_t position) const;
};
using SampleVisitor = std::function<void(const SampleResult&)>;

struct EvaluationOptions {
  int64_t beam = 0;  // prefixes that a CTC search keeps; 0: the best path
};

// What evaluations add up, micro-batch by micro-batch in order, wherever the network's last device is.
class EvaluationSum {
 public:
  EvaluationSum(const Graph& graph, const Dataset& data, int64_t micro_batch, const EvaluationOptions& options, SampleVisitor visit);
  ~EvaluationSum();

  // A micro-batch that the segment with the loss has just taken forward.
  void add(SegmentExecutor& segment, const Batch& loaded);
  SequenceEvaluation finish(const Score& score) const;

 private:
  struct Figures;

  const Graph& graph_;
  SampleVisitor visit_;
  StepMap steps_;
  std::vector<float> scores_;
  std::unique_ptr<Figures> figures_;
};

SequenceEvaluation evaluate_fully(SegmentExecutor& segment, const Graph& graph, const Plan& plan, const Dataset& data,
                                  const DataTransform& transform, const EvaluationOptions& options = {}, const SampleVisitor& visit = {});

}  // namespace millrace
