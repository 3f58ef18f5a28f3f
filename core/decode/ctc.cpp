#include "core/decode/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double larger = std::max(a, b);
  return larger == kImpossible ? kImpossible : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

void check(const CtcScores& scores) {
  MILLRACE_CHECK(scores.classes > 0 && 0 <= scores.steps && scores.steps <= scores.rows && 0 <= scores.blank &&
                     scores.blank < scores.classes && static_cast<int64_t>(scores.logits.size()) >= scores.classes * scores.rows,
                 "{} scores of {} classes and {} rows, {} steps, blank {}", scores.logits.size(), scores.classes, scores.rows, scores.steps,
                 scores.blank);
}

void refuse_non_finite(const CtcScores& scores) {
  for (int64_t step = 0; step < scores.steps; ++step)
    for (int64_t label = 0; label < scores.classes; ++label)
      if (!std::isfinite(scores.at(label, step)))
        fail(ErrorCode::kNumeric, "the score of class {} at step {} is not finite; nothing can be read from it", label, step);
}

// Log probabilities of all classes at one step.
void normalise(const CtcScores& scores, int64_t step, std::vector<double>& said) {
  double total = kImpossible;
  for (int64_t label = 0; label < scores.classes; ++label) total = log_add(total, scores.at(label, step));
  for (int64_t label = 0; label < scores.classes; ++label) fast_item(said, label) = scores.at(label, step) - total;
}

// All ways seen so far to have said a prefix.
struct Ways {
  double ending_in_blank = kImpossible;
  double ending_in_label = kImpossible;
  double all() const { return log_add(ending_in_blank, ending_in_label); }
};
using Beam = std::map<std::vector<int32_t>, Ways>;

// The most probable `most`, ties by order of labels.
void prune(Beam& beam, int64_t most) {
  if (static_cast<int64_t>(beam.size()) <= most) return;
  std::vector<std::pair<double, const std::vector<int32_t>*>> ranked;
  for (const auto& [prefix, ways] : beam) ranked.emplace_back(ways.all(), &prefix);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Beam kept;
  for (size_t i = 0; i < to_size(most); ++i) kept.insert(beam.extract(*ranked[i].second));
  beam = std::move(kept);
}

}  // namespace

std::vector<int32_t> best_path(const CtcScores& scores) {
  check(scores);
  std::vector<int32_t> labels;
  int64_t before = scores.blank;
  for (int64_t step = 0; step < scores.steps; ++step) {
    int64_t best = 0;
    for (int64_t label = 1; label < scores.classes; ++label)
      if (scores.at(label, step) > scores.at(best, step)) best = label;
    if (best != before && best != scores.blank) labels.push_back(static_cast<int32_t>(best));
    before = best;
  }
  return labels;
}

CtcReading beam_search(const CtcScores& scores, int64_t beam_width) {
  check(scores);
  refuse_non_finite(scores);
  if (beam_width < 1) fail(ErrorCode::kUsage, "a beam of {} prefixes; at least 1 is needed", beam_width);
  std::vector<double> said(to_size(scores.classes));
  Beam beam{{{}, {.ending_in_blank = 0, .ending_in_label = kImpossible}}};
  for (int64_t step = 0; step < scores.steps; ++step) {
    normalise(scores, step, said);
    Beam next;
    for (const auto& [prefix, ways] : beam) {
      const double all = ways.all();
      Ways& stays = next[prefix];
      stays.ending_in_blank = log_add(stays.ending_in_blank, all + fast_item(said, scores.blank));
      if (!prefix.empty()) stays.ending_in_label = log_add(stays.ending_in_label, ways.ending_in_label + fast_item(said, prefix.back()));
      std::vector<int32_t> longer = prefix;
      longer.push_back(0);
      for (int64_t label = 0; label < scores.classes; ++label) {
        if (label == scores.blank) continue;
        // The same label again is a new one only behind a blank.
        const bool repeats = !prefix.empty() && prefix.back() == label;
        const double from = repeats ? ways.ending_in_blank : all;
        if (from == kImpossible) continue;
        longer.back() = static_cast<int32_t>(label);
        double& grown = next[longer].ending_in_label;
        grown = log_add(grown, from + fast_item(said, label));
      }
    }
    prune(next, beam_width);
    beam = std::move(next);
  }
  prune(beam, 1);
  return {beam.begin()->first, beam.begin()->second.all()};
}

}  // namespace millrace
