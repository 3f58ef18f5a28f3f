// An update of one element, as optimizer_math.h describes it; apart, so that a GPU's compiler reads nothing else.
//
//   const OptimizerMath<float> update(arguments);
//   update(weight, gradient, &momentum, nullptr);
#pragma once

#include <cmath>

#include "core/base/host_device.h"
#include "core/device/device.h"

namespace millrace {

template <typename T>
class OptimizerMath {
 public:
  OptimizerMath() = default;
  explicit OptimizerMath(const UpdateArguments& arguments)
      : kind_(arguments.optimizer.kind),
        clipped_(arguments.value_limit.has_value()),
        limit_(static_cast<T>(arguments.value_limit.value_or(0))),
        scale_(static_cast<T>(arguments.gradient_scale)),
        decay_(arguments.decay && !decoupled(arguments) ? static_cast<T>(arguments.optimizer.weight_decay) : T{0}),
        rate_(static_cast<T>(arguments.learning_rate)),
        momentum_(static_cast<T>(arguments.optimizer.momentum)),
        average_decay_(static_cast<T>(arguments.optimizer.average_decay)) {
    if (kind_ != OptimizerKind::kAdam && kind_ != OptimizerKind::kAdamW) return;
    if (arguments.decay && decoupled(arguments)) kept_ = static_cast<T>(1 - arguments.learning_rate * arguments.optimizer.weight_decay);
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
  MILLRACE_HOST_DEVICE void operator()(T& weight, T gradient, T* first, T* second, T* average = nullptr) const {
    const T before = weight;
    step(weight, gradient, first, second);
    if (average != nullptr) *average = average_decay_ * (*average + (before - weight));
  }

 private:
  static bool decoupled(const UpdateArguments& arguments) { return arguments.optimizer.kind == OptimizerKind::kAdamW; }

  MILLRACE_HOST_DEVICE void step(T& weight, T gradient, T* first, T* second) const {
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
      case OptimizerKind::kAdamW: weight *= kept_; [[fallthrough]];
      case OptimizerKind::kAdam:
        *first = beta1_ * *first + rest1_ * g;
        *second = beta2_ * *second + rest2_ * g * g;
        weight -= rate_ * (*first / (std::sqrt(*second) / root_correction_ + epsilon_));
        return;
    }
  }

  OptimizerKind kind_ = OptimizerKind::kSgd;
  bool clipped_ = false;
  T limit_ = 0, scale_ = 1, decay_ = 0, rate_ = 0, momentum_ = 0;
  T beta1_ = 0, beta2_ = 0, rest1_ = 0, rest2_ = 0, epsilon_ = 0, root_correction_ = 1;
  T average_decay_ = 0;
  T kept_ = 1;  // of the weight, where decay does not join the gradient
};

}  // namespace millrace
