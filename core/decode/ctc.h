// From the scores of a CTC network to the labels it says.
//
//   const CtcScores scores{logits, classes, /*stride=*/rows, steps, blank};       // [class][row], as the network leaves them
//   std::vector<int32_t> quick = best_path(scores);
//   const CtcReading best = beam_search(scores, 16);       // log probability over every way to say the labels
//
// The best path takes the best class of each step, joins repeats and leaves blanks out. The beam search adds up all ways to say
// the same labels (prefix search): with as many prefixes as there are rows of labels at all it finds the most probable row, with
// fewer it keeps the best at each step. Of equally probable prefixes the one first in order of labels stays, so that nothing
// depends on the machine. Sums run in log space, in double.
// The search fails with kUsage for a beam below 1 and kNumeric for a score that is no number; the best path passes over those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"

namespace millrace {

struct CtcScores {
  std::span<const float> logits;  // [class][row]; need not be normalised
  int64_t classes = 0;
  int64_t rows = 0;   // of the tensor
  int64_t steps = 0;  // the sample's own, at most rows
  int64_t blank = 0;

  double at(int64_t label, int64_t step) const { return static_cast<double>(item(logits, label * rows + step)); }
};

struct CtcReading {
  std::vector<int32_t> labels;
  double log_probability = 0;  // of the labels, as far as the beam saw their ways
};

std::vector<int32_t> best_path(const CtcScores& scores);
CtcReading beam_search(const CtcScores& scores, int64_t beam);

}  // namespace millrace
