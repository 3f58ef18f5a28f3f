// The arithmetic of an update, element by element: one place for every device that computes on the host.
//
//   update_elements<float>(arguments, weights, gradients, momentum_slot, {});
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

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "core/base/check.h"
#include "core/device/device.h"

namespace millrace {

template <typename T>
void update_elements(const UpdateArguments& arguments, std::span<T> weights, std::span<const T> gradients, std::span<T> first_slot,
                     std::span<T> second_slot) {
  const OptimizerSettings& optimizer = arguments.optimizer;
  const size_t count = weights.size();
  MILLRACE_CHECK(gradients.size() == count, "{} gradients for {} weights", gradients.size(), count);
  MILLRACE_CHECK(optimizer.slots() < 1 || first_slot.size() == count, "first slot: {} of {} elements", first_slot.size(), count);
  MILLRACE_CHECK(optimizer.slots() < 2 || second_slot.size() == count, "second slot: {} of {} elements", second_slot.size(), count);

  const T rate = static_cast<T>(arguments.learning_rate);
  const T momentum = static_cast<T>(optimizer.momentum);
  const T scale = static_cast<T>(arguments.gradient_scale);
  const T decay = arguments.decay ? static_cast<T>(optimizer.weight_decay) : T{0};
  const bool clipped = arguments.value_limit.has_value();
  const T limit = static_cast<T>(arguments.value_limit.value_or(0));
  const auto prepared = [&](size_t i) {
    const T gradient = clipped ? std::clamp(gradients[i], -limit, limit) : gradients[i];
    return gradient * scale + decay * weights[i];
  };

  switch (optimizer.kind) {
    case OptimizerKind::kSgd:
      for (size_t i = 0; i < count; ++i) weights[i] -= rate * prepared(i);
      return;
    case OptimizerKind::kMomentum:
      for (size_t i = 0; i < count; ++i) {
        first_slot[i] = momentum * first_slot[i] + prepared(i);
        weights[i] -= rate * first_slot[i];
      }
      return;
    case OptimizerKind::kNesterov:
      for (size_t i = 0; i < count; ++i) {
        const T gradient = prepared(i);
        first_slot[i] = momentum * first_slot[i] + gradient;
        weights[i] -= rate * (gradient + momentum * first_slot[i]);
      }
      return;
    case OptimizerKind::kAdam: {
      const double step = static_cast<double>(arguments.step);
      const T beta1 = static_cast<T>(optimizer.beta1);
      const T beta2 = static_cast<T>(optimizer.beta2);
      const T rest1 = static_cast<T>(1 - optimizer.beta1);
      const T rest2 = static_cast<T>(1 - optimizer.beta2);
      const T epsilon = static_cast<T>(optimizer.epsilon);
      const T corrected_rate = static_cast<T>(arguments.learning_rate / (1 - std::pow(optimizer.beta1, step)));
      const T root_correction = static_cast<T>(std::sqrt(1 - std::pow(optimizer.beta2, step)));
      for (size_t i = 0; i < count; ++i) {
        const T gradient = prepared(i);
        first_slot[i] = beta1 * first_slot[i] + rest1 * gradient;
        second_slot[i] = beta2 * second_slot[i] + rest2 * gradient * gradient;
        weights[i] -= corrected_rate * (first_slot[i] / (std::sqrt(second_slot[i]) / root_correction + epsilon));
      }
      return;
    }
  }
}

}  // namespace millrace
