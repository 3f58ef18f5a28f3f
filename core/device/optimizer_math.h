// The arithmetic of an update, element by element: one place for every device.
//
//   update_elements<float>(arguments, weights, gradients, momentum_slot, {});
//   const OptimizerMath<float> one(arguments);  one(weight, gradient, &momentum, nullptr);
//
// In this order: g is clipped to +-value_limit, scaled by gradient_scale, and weight_decay * w is added; then
//   sgd        w -= lr * g
//   momentum   v = m * v + g;  w -= lr * v
//   nesterov   v = m * v + g;  w -= lr * (g + m * v)
//   adam       a = b1 * a + (1 - b1) * g;  b = b2 * b + (1 - b2) * g * g
//              w -= lr / (1 - b1^step) * a / (sqrt(b) / sqrt(1 - b2^step) + epsilon)
// which are PyTorch's formulas. Slots start at zero. Elements are independent of each other, so any slicing of a
// parameter gives the same bits.
// Limits: all spans hold as many elements as `weights`, apart from slots the optimizer does not have.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "core/base/check.h"
#include "core/base/host_device.h"
#include "core/device/device.h"

namespace millrace {

// One element at a time; also on a GPU.
template <typename T>
class OptimizerMath {
 public:
  OptimizerMath() = default;
  explicit OptimizerMath(const UpdateArguments& arguments)
      : kind_(arguments.optimizer.kind),
        clipped_(arguments.value_limit.has_value()),
        limit_(static_cast<T>(arguments.value_limit.value_or(0))),
        scale_(static_cast<T>(arguments.gradient_scale)),
        decay_(arguments.decay ? static_cast<T>(arguments.optimizer.weight_decay) : T{0}),
        rate_(static_cast<T>(arguments.learning_rate)),
        momentum_(static_cast<T>(arguments.optimizer.momentum)) {
    if (kind_ != OptimizerKind::kAdam) return;
    const OptimizerSettings& optimizer = arguments.optimizer;
    const double step = static_cast<double>(arguments.step);
    beta1_ = static_cast<T>(optimizer.beta1);
    beta2_ = static_cast<T>(optimizer.beta2);
    rest1_ = static_cast<T>(1 - optimizer.beta1);
    rest2_ = static_cast<T>(1 - optimizer.beta2);
    epsilon_ = static_cast<T>(optimizer.epsilon);
    rate_ = static_cast<T>(arguments.learning_rate / (1 - std::pow(optimizer.beta1, step)));
    root_correction_ = static_cast<T>(std::sqrt(1 - std::pow(optimizer.beta2, step)));
  }

  // Slots that the optimizer does not have may be null.
  MILLRACE_HOST_DEVICE void operator()(T& weight, T gradient, T* first, T* second) const {
    const T clipped = !clipped_ ? gradient : gradient < -limit_ ? -limit_ : limit_ < gradient ? limit_ : gradient;
    const T g = clipped * scale_ + decay_ * weight;
    switch (kind_) {
      case OptimizerKind::kSgd: weight -= rate_ * g; return;
      case OptimizerKind::kMomentum:
        *first = momentum_ * *first + g;
        weight -= rate_ * *first;
        return;
      case OptimizerKind::kNesterov:
        *first = momentum_ * *first + g;
        weight -= rate_ * (g + momentum_ * *first);
        return;
      case OptimizerKind::kAdam:
        *first = beta1_ * *first + rest1_ * g;
        *second = beta2_ * *second + rest2_ * g * g;
        weight -= rate_ * (*first / (std::sqrt(*second) / root_correction_ + epsilon_));
        return;
    }
  }

 private:
  OptimizerKind kind_ = OptimizerKind::kSgd;
  bool clipped_ = false;
  T limit_ = 0, scale_ = 1, decay_ = 0, rate_ = 0, momentum_ = 0;
  T beta1_ = 0, beta2_ = 0, rest1_ = 0, rest2_ = 0, epsilon_ = 0, root_correction_ = 1;
};

template <typename T>
void update_elements(const UpdateArguments& arguments, std::span<T> weights, std::span<const T> gradients, std::span<T> first_slot,
                     std::span<T> second_slot) {
  const OptimizerSettings& optimizer = arguments.optimizer;
  const size_t count = weights.size();
  MILLRACE_CHECK(gradients.size() == count, "{} gradients for {} weights", gradients.size(), count);
  MILLRACE_CHECK(optimizer.slots() < 1 || first_slot.size() == count, "first slot: {} of {} elements", first_slot.size(), count);
  MILLRACE_CHECK(optimizer.slots() < 2 || second_slot.size() == count, "second slot: {} of {} elements", second_slot.size(), count);
  const OptimizerMath<T> update(arguments);
  T* const first = optimizer.slots() < 1 ? nullptr : first_slot.data();
  T* const second = optimizer.slots() < 2 ? nullptr : second_slot.data();
  for (size_t i = 0; i < count; ++i)
    update(weights[i], gradients[i], first == nullptr ? nullptr : first + i, second == nullptr ? nullptr : second + i);
}

}  // namespace millrace
