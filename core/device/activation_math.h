// The activations and their derivatives, element by element: one place for every device.
//
//   const ActivationMath<float> relu(Activation{ActivationKind::kRelu});
//   y = relu(x);  x_error = y_error * relu.derivative(y);
//
// The derivative is taken from the OUTPUT, so nothing but the output has to be kept. At a kink it is the one from the
// left (0 for relu, the slope for leaky relu), as PyTorch's.
// Limits: leaky relu needs slope >= 0; with a negative one the output no longer tells the side of the kink.
#pragma once

#include <cmath>

#include "core/base/host_device.h"
#include "core/operation/activation.h"

namespace millrace {

template <typename T>
class ActivationMath {
 public:
  MILLRACE_HOST_DEVICE explicit ActivationMath(const Activation& activation)
      : kind_(activation.kind), slope_(static_cast<T>(activation.slope)) {}

  MILLRACE_HOST_DEVICE T operator()(T x) const {
    switch (kind_) {
      case ActivationKind::kRelu: return x > T{0} ? x : T{0};
      case ActivationKind::kLeakyRelu: return x > T{0} ? x : slope_ * x;
      case ActivationKind::kSigmoid: return T{1} / (T{1} + std::exp(-x));
      case ActivationKind::kTanh: break;
    }
    return std::tanh(x);
  }

  MILLRACE_HOST_DEVICE T derivative(T y) const {
    switch (kind_) {
      case ActivationKind::kRelu: return y > T{0} ? T{1} : T{0};
      case ActivationKind::kLeakyRelu: return y > T{0} ? T{1} : slope_;
      case ActivationKind::kSigmoid: return y * (T{1} - y);
      case ActivationKind::kTanh: break;
    }
    return T{1} - y * y;
  }

 private:
  ActivationKind kind_;
  T slope_;
};

}  // namespace millrace
