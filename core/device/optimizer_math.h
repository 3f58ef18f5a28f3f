// The arithmetic of an update, element by element: one place for every device.
//
//   update_elements<float>(arguments, weights, gradients, momentum_slot, {});
//
// In this order: g is clipped to +-value_limit, scaled by gradient_scale, and weight_decay * w is added; then
//   sgd        w -= lr * g
//   momentum   v = m * v + g;  w -= lr * v
//   nesterov   v = m * v + g;  w -= lr * (g + m * v)
//   adam       a = b1 * a + (1 - b1) * g;  b = b2 * b + (1 - b2) * g * g
//              w -= lr / (1 - b1^step) * a / (sqrt(b) / sqrt(1 - b2^step) + epsilon)
//   adamw      as adam, but the decay is not in g: w *= 1 - lr * weight_decay comes first
// which are PyTorch's formulas. Then, where an average is kept, its slot holds average - weight:
//   average    e = average_decay * (e + w_before - w)
// so that e = 0 at the start means that the average begins as the weight. Slots start at zero. Elements are independent of each other, so
// any slicing of a parameter gives the same bits. Limits: all spans hold as many elements as `weights`, apart from slots the optimizer does
// not have.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/check.h"
#include "core/device/device.h"
#include "core/device/optimizer_element.h"

namespace millrace {

template <typename T>
void update_elements(const UpdateArguments& arguments, std::span<T> weights, std::span<const T> gradients, std::span<T> first_slot,
                     std::span<T> second_slot, std::span<T> average = {}) {
  const OptimizerSettings& optimizer = arguments.optimizer;
  const size_t count = weights.size();
  MILLRACE_CHECK(gradients.size() == count, "{} gradients for {} weights", gradients.size(), count);
  MILLRACE_CHECK(optimizer.kind_slots() < 1 || first_slot.size() == count, "first slot: {} of {} elements", first_slot.size(), count);
  MILLRACE_CHECK(optimizer.kind_slots() < 2 || second_slot.size() == count, "second slot: {} of {} elements", second_slot.size(), count);
  MILLRACE_CHECK(!optimizer.averages() || average.size() == count, "average: {} of {} elements", average.size(), count);
  const OptimizerMath<T> update(arguments);
  T* const first = optimizer.kind_slots() < 1 ? nullptr : first_slot.data();
  T* const second = optimizer.kind_slots() < 2 ? nullptr : second_slot.data();
  T* const mean = optimizer.averages() ? average.data() : nullptr;
  for (size_t i = 0; i < count; ++i)
    update(weights[i], gradients[i], first == nullptr ? nullptr : first + i, second == nullptr ? nullptr : second + i,
           mean == nullptr ? nullptr : mean + i);
}

}  // namespace millrace
