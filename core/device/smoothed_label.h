// What a softmax loss takes for the truth about one position: all of it at the label, or a share of it at every class alike; apart, so
// that a GPU's compiler reads nothing else.
//
//   const SmoothedLabel<float> target(smoothing, classes);
//   error = probability - target.of(c == label);
//   loss = log(sum) - target.mean(logits, label, guess, positions);      // log(sum) with the largest logit taken out
//
// Without smoothing these are the plain formulas, to the bit.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace millrace {

template <typename T>
class SmoothedLabel {
 public:
  SmoothedLabel() = default;
  SmoothedLabel(double smoothing, int64_t classes)
      : classes_(classes),
        smoothed_(smoothing > 0),
        elsewhere_(static_cast<T>(smoothing / static_cast<double>(classes))),
        here_(static_cast<T>(1 - smoothing + smoothing / static_cast<double>(classes))) {}

  MILLRACE_HOST_DEVICE T of(bool is_label) const { return is_label ? here_ : elsewhere_; }

  // The logits weighed by the target, with logit `guess` taken out; they lie `stride` apart.
  MILLRACE_HOST_DEVICE T mean(const T* logits, int64_t label, int64_t guess, int64_t stride) const {
    const T largest = logits[guess * stride];
    if (!smoothed_) return logits[label * stride] - largest;
    T sum = 0;
    for (int64_t c = 0; c < classes_; ++c) sum += of(c == label) * (logits[c * stride] - largest);
    return sum;
  }

 private:
  int64_t classes_ = 1;
  bool smoothed_ = false;
  T elsewhere_ = 0, here_ = 1;
};

}  // namespace millrace
