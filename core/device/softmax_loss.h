// Softmax over channels with cross-entropy, at every position (row and column) of every sample: one place for every
// device that computes on the host. Data is canonical: [sample][channel][position].
//
//   const SoftmaxLoss<float> loss("loss", shape, batch_size);
//   loss.probabilities(logits, out);
//   loss.add_score(logits, labels, smoothing, score);  // one label per position: [sample][position]
//   loss.error(out, labels, smoothing, error_scale, add, input_error);
//
// The loss of a sample is the sum over its positions of log(sum exp) - logit of the label, with the largest logit
// taken out first, so that nothing overflows; its error is (probability - one-hot) * error_scale. Positions labelled
// kNoLabel have neither loss nor error. With smoothing e the one-hot vector of K classes becomes (1 - e) of itself and e / K of
// all ones, in loss and error, as PyTorch's label_smoothing has it. A sample counts when it has a label, and as correct when the first
// largest logit of its LAST labelled position is the label's. Fails with kMismatch when there are not as many labels as positions or a
// label is neither a class nor kNoLabel.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/device.h"
#include "core/device/smoothed_label.h"

namespace millrace {

template <typename T>
class SoftmaxLoss {
 public:
  SoftmaxLoss(std::string layer, const Shape& shape, int64_t batch)
      : layer_(std::move(layer)), classes_(shape.channels), positions_(shape.plane()), batch_(batch) {}

  void probabilities(std::span<const T> logits, std::span<T> probabilities) const {
    for_each_position([&](int64_t, int64_t, int64_t at) {
      const T* x = logits.data() + at;
      T* p = probabilities.data() + at;
      const T largest = x[predicted(x) * positions_];
      T sum = 0;
      for (int64_t c = 0; c < classes_; ++c) sum += p[c * positions_] = std::exp(x[c * positions_] - largest);
      for (int64_t c = 0; c < classes_; ++c) p[c * positions_] /= sum;
    });
  }

  void add_score(std::span<const T> logits, std::span<const int32_t> labels, double smoothing, Score& score) const {
    check(labels);
    for (int64_t sample = 0; sample < batch_; ++sample) {
      bool labelled = false;
      bool correct = false;
      for (int64_t position = 0; position < positions_; ++position) {
        const int64_t label = fast_item(labels, sample * positions_ + position);
        if (label == kNoLabel) continue;
        const T* x = logits.data() + sample * classes_ * positions_ + position;
        const int64_t guess = predicted(x);
        T sum = 0;
        for (int64_t c = 0; c < classes_; ++c) sum += std::exp(x[c * positions_] - x[guess * positions_]);
        score.loss += static_cast<double>(std::log(sum) - SmoothedLabel<T>(smoothing, classes_).mean(x, label, guess, positions_));
        labelled = true;
        correct = guess == label;
      }
      score.samples += labelled ? 1 : 0;
      score.correct += correct ? 1 : 0;
    }
  }

  void error(std::span<const T> probabilities, std::span<const int32_t> labels, double smoothing, double error_scale, bool add,
             std::span<T> errors) const {
    check(labels);
    const T scale = static_cast<T>(error_scale);
    const SmoothedLabel<T> target(smoothing, classes_);
    for_each_position([&](int64_t sample, int64_t position, int64_t at) {
      const int64_t label = fast_item(labels, sample * positions_ + position);
      for (int64_t c = 0; c < classes_; ++c) {
        const T distance = probabilities.data()[at + c * positions_] - target.of(c == label);
        const T error = label == kNoLabel ? T{0} : distance * scale;
        T& slot = errors.data()[at + c * positions_];
        slot = add ? slot + error : error;
      }
    });
  }

  // Fails as said above.
  void check(std::span<const int32_t> labels) const {
    if (static_cast<int64_t>(labels.size()) != batch_ * positions_)
      fail(ErrorCode::kMismatch, "layer \"{}\": {} labels for {} samples of {} positions; one label per position is needed", layer_,
           labels.size(), batch_, positions_);
    for (const int32_t label : labels)
      if (label != kNoLabel && (label < 0 || label >= classes_))
        fail(ErrorCode::kMismatch, "layer \"{}\": label {}, but the network tells {} classes apart; adapt its last layer to the data",
             layer_, label, classes_);
  }

 private:
  // Calls visit(sample, position, index of that position's first class).
  template <typename Visit>
  void for_each_position(Visit visit) const {
    for (int64_t sample = 0; sample < batch_; ++sample)
      for (int64_t position = 0; position < positions_; ++position) visit(sample, position, sample * classes_ * positions_ + position);
  }

  int64_t predicted(const T* x) const {
    int64_t best = 0;
    for (int64_t c = 1; c < classes_; ++c)
      if (x[c * positions_] > x[best * positions_]) best = c;
    return best;
  }

  std::string layer_;
  int64_t classes_;
  int64_t positions_;
  int64_t batch_;
};

}  // namespace millrace
