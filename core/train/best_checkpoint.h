// The checkpoint of a run's best evaluation, alone in a folder of its own: RUN/best/step-N.
//
//   mark_best(content, EvaluationMetric::kLoss, 0.0857);           // what it was best in, among the attributes
//   keep_best_checkpoint("run/best", content);                     // replaces the one before
//   if (const auto value = best_kept("run/best", EvaluationMetric::kLoss)) ...
//
// The new one is complete before the old one goes, so there is always a whole one; a crash in between leaves both, and best_kept()
// goes by the better. Limits: one writer per folder at a time, as write_checkpoint.
#pragma once

#include <filesystem>
#include <optional>

#include "core/documents/job.h"
#include "core/train/checkpoint.h"

namespace millrace {

void mark_best(CheckpointContent& content, EvaluationMetric metric, double value);
std::filesystem::path keep_best_checkpoint(const std::filesystem::path& root, const CheckpointContent& content);
// The best value of the complete checkpoints there that were kept for this metric; nothing when there is none.
std::optional<double> best_kept(const std::filesystem::path& root, EvaluationMetric metric);

}  // namespace millrace
