// Connectionist temporal classification: how probable a short row of labels is when every step of a long one says a label
// or nothing (blank), over all ways to line the two up. One place for every device that computes on the host.
//
//   const CtcMath<float> ctc("loss", shape, batch_size, ctc.blank);
//   ctc.probabilities(logits, out);                              // softmax over classes, at every step
//   ctc.add_score(logits, steps, labels, score);                 // steps: valid ones, per sample
//   ctc.error(logits, steps, labels, error_scale, add, input_error);
//
// Data is canonical, [sample][class][step]; labels are [sample][position], each sample's filled up with kNoLabel. The loss
// of a sample is -log p(labels); its error (probability - posterior) * error_scale, zero behind its last step. A sample
// without labels has neither. It is correct when the best class of every step, repeats joined and blanks left out, spells
// its labels. Forward and backward sums run in log space, in double whatever T is.
// Fails with kMismatch on a label that is blank or no class, on labels after kNoLabel, and on more labels than the steps
// can spell (each repeat needs a blank between).
// Not thread safe: working space is kept from call to call, so that nothing is allocated once it is large enough.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/device.h"

namespace millrace {

template <typename T>
class CtcMath {
 public:
  CtcMath(std::string layer, const Shape& shape, int64_t batch, int64_t blank)
      : layer_(std::move(layer)), classes_(shape.channels), rows_(shape.height), batch_(batch), blank_(blank) {}

  void probabilities(std::span<const T> logits, std::span<T> probabilities) const {
    for (int64_t sample = 0; sample < batch_; ++sample)
      for (int64_t step = 0; step < rows_; ++step) {
        const double normaliser = log_sum(logits, sample, step);
        for (int64_t c = 0; c < classes_; ++c)
          fast_item(probabilities, index(sample, c, step)) = static_cast<T>(std::exp(value(logits, sample, c, step) - normaliser));
      }
  }

  void add_score(std::span<const T> logits, std::span<const int64_t> steps, std::span<const int32_t> labels, Score& score) {
    for (int64_t sample = 0; sample < batch_; ++sample) {
      const int64_t valid = fast_item(steps, sample);
      take_labels(labels, sample, valid);
      if (spelled_.empty()) continue;
      lattice_.build(*this, logits, sample, valid);
      score.loss -= lattice_.log_probability();
      score.correct += best_path_spells(logits, sample, valid) ? 1 : 0;
      ++score.samples;
    }
  }

  void error(std::span<const T> logits, std::span<const int64_t> steps, std::span<const int32_t> labels, double error_scale, bool add,
             std::span<T> errors) {
    posterior_.resize(to_size(classes_));
    for (int64_t sample = 0; sample < batch_; ++sample) {
      const int64_t valid = fast_item(steps, sample);
      take_labels(labels, sample, valid);
      if (!spelled_.empty()) lattice_.build(*this, logits, sample, valid);
      for (int64_t step = 0; step < rows_; ++step) {
        const bool counts = !spelled_.empty() && step < valid;
        if (counts) lattice_.posterior(step, posterior_);
        const double normaliser = counts ? log_sum(logits, sample, step) : 0;
        for (int64_t c = 0; c < classes_; ++c) {
          const double distance = counts ? std::exp(value(logits, sample, c, step) - normaliser) - fast_item(posterior_, c) : 0;
          T& slot = fast_item(errors, index(sample, c, step));
          const T error = static_cast<T>(distance * error_scale);
          slot = add ? slot + error : error;
        }
      }
    }
  }

 private:
  static constexpr double kImpossible = -std::numeric_limits<double>::infinity();

  static double log_add(double a, double b) {
    const double larger = std::max(a, b);
    return larger == kImpossible ? kImpossible : larger + std::log1p(std::exp(std::min(a, b) - larger));
  }

  int64_t index(int64_t sample, int64_t c, int64_t step) const { return (sample * classes_ + c) * rows_ + step; }
  double value(std::span<const T> logits, int64_t sample, int64_t c, int64_t step) const {
    return static_cast<double>(fast_item(logits, index(sample, c, step)));
  }
  double log_sum(std::span<const T> logits, int64_t sample, int64_t step) const {
    double largest = value(logits, sample, 0, step);
    for (int64_t c = 1; c < classes_; ++c) largest = std::max(largest, value(logits, sample, c, step));
    double sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += std::exp(value(logits, sample, c, step) - largest);
    return largest + std::log(sum);
  }

  // The sums over all ways to reach, and to go on from, each place of "blank l blank l ... blank" at each step.
  class Lattice {
   public:
    // For the labels that ctc has taken; at least one, and as many steps as they need.
    void build(const CtcMath& ctc, std::span<const T> logits, int64_t sample, int64_t steps) {
      steps_ = steps;
      width_ = static_cast<int64_t>(2 * ctc.spelled_.size() + 1);
      path_.assign(to_size(width_), ctc.blank_);
      for (size_t i = 0; i < ctc.spelled_.size(); ++i) path_[2 * i + 1] = ctc.spelled_[i];
      said_.resize(to_size(steps_ * width_));
      for (int64_t t = 0; t < steps_; ++t) {
        const double normaliser = ctc.log_sum(logits, sample, t);
        for (int64_t s = 0; s < width_; ++s) at(said_, t, s) = ctc.value(logits, sample, fast_item(path_, s), t) - normaliser;
      }
      sweep();
    }

    double log_probability() const { return log_add(at(reached_, steps_ - 1, width_ - 1), at(reached_, steps_ - 1, width_ - 2)); }

    // The share of the ways that say each class at this step.
    void posterior(int64_t t, std::span<double> classes) const {
      std::ranges::fill(classes, 0.0);
      const double total = log_probability();
      for (int64_t s = 0; s < width_; ++s)
        fast_item(classes, fast_item(path_, s)) += std::exp(at(reached_, t, s) + at(left_, t, s) - total);
    }

   private:
    double& at(std::vector<double>& values, int64_t t, int64_t s) const { return fast_item(values, t * width_ + s); }
    double at(const std::vector<double>& values, int64_t t, int64_t s) const { return fast_item(values, t * width_ + s); }

    // A blank may be passed over between two different labels.
    bool skips_to(int64_t s) const { return s >= 2 && s % 2 == 1 && fast_item(path_, s) != fast_item(path_, s - 2); }

    void sweep() {
      reached_.assign(said_.size(), kImpossible);
      left_.assign(said_.size(), kImpossible);
      for (int64_t s = 0; s < 2; ++s) at(reached_, 0, s) = at(said_, 0, s);
      for (int64_t t = 1; t < steps_; ++t)
        for (int64_t s = 0; s < width_; ++s) {
          double ways = at(reached_, t - 1, s);
          if (s >= 1) ways = log_add(ways, at(reached_, t - 1, s - 1));
          if (skips_to(s)) ways = log_add(ways, at(reached_, t - 1, s - 2));
          at(reached_, t, s) = ways + at(said_, t, s);
        }
      // What lies behind step t, so that reached + left counts what is said at t once.
      for (int64_t s = width_ - 2; s < width_; ++s) at(left_, steps_ - 1, s) = 0;
      for (int64_t t = steps_ - 2; t >= 0; --t)
        for (int64_t s = 0; s < width_; ++s) {
          double ways = at(left_, t + 1, s) + at(said_, t + 1, s);
          if (s + 1 < width_) ways = log_add(ways, at(left_, t + 1, s + 1) + at(said_, t + 1, s + 1));
          if (s + 2 < width_ && skips_to(s + 2)) ways = log_add(ways, at(left_, t + 1, s + 2) + at(said_, t + 1, s + 2));
          at(left_, t, s) = ways;
        }
    }

    int64_t steps_ = 0;
    int64_t width_ = 0;
    std::vector<int64_t> path_;
    std::vector<double> said_, reached_, left_;  // [step][place]
  };

  // The best class of each step, repeats joined, blanks left out.
  bool best_path_spells(std::span<const T> logits, int64_t sample, int64_t steps) const {
    size_t said = 0;
    int64_t before = blank_;
    for (int64_t step = 0; step < steps; ++step) {
      int64_t best = 0;
      for (int64_t c = 1; c < classes_; ++c)
        if (fast_item(logits, index(sample, c, step)) > fast_item(logits, index(sample, best, step))) best = c;
      if (best != before && best != blank_) {
        if (said == spelled_.size() || spelled_[said] != best) return false;
        ++said;
      }
      before = best;
    }
    return said == spelled_.size();
  }

  void take_labels(std::span<const int32_t> labels, int64_t sample, int64_t steps) {
    if (labels.size() % to_size(batch_) != 0)
      fail(ErrorCode::kMismatch, "layer \"{}\": {} labels do not divide among {} samples; fill each sample's up with {}", layer_,
           labels.size(), batch_, kNoLabel);
    const size_t most = labels.size() / to_size(batch_);
    const std::span<const int32_t> row = labels.subspan(to_size(sample) * most, most);
    const auto end = std::ranges::find(row, kNoLabel);
    spelled_.assign(row.begin(), end);
    if (std::any_of(end, row.end(), [](int32_t label) { return label != kNoLabel; }))
      fail(ErrorCode::kMismatch, "layer \"{}\": sample {} has labels after one that is missing", layer_, sample);
    int64_t needed = static_cast<int64_t>(spelled_.size());
    for (size_t i = 0; i < spelled_.size(); ++i) {
      if (spelled_[i] < 0 || spelled_[i] >= classes_ || spelled_[i] == blank_)
        fail(ErrorCode::kMismatch, "layer \"{}\": sample {} has label {}; labels are classes 0 to {} except the blank, {}", layer_, sample,
             spelled_[i], classes_ - 1, blank_);
      if (i > 0 && spelled_[i] == spelled_[i - 1]) ++needed;
    }
    if (needed > steps)
      fail(ErrorCode::kMismatch,
           "layer \"{}\": sample {} has {} labels, which take at least {} steps to say, but {} steps; leave the sample out, or use fewer "
           "strides over time",
           layer_, sample, spelled_.size(), needed, steps);
  }

  std::string layer_;
  int64_t classes_;
  int64_t rows_;  // steps of the tensor
  int64_t batch_;
  int64_t blank_;
  std::vector<int32_t> spelled_;  // of the sample at hand
  std::vector<double> posterior_;
  Lattice lattice_;
};

}  // namespace millrace
