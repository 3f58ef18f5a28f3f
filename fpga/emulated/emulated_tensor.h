// A tensor of the emulated FPGA: one of the host's, and for a weight what its update rounds to. Internal to fpga/emulated.
//
// A gradient may still lie where its engine is: whoever asks for the host's tensor waits for it and gets it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/device.h"
#include "fpga/conv_ce/phases/convolution_engine.h"

namespace millrace::emulated {

// Of a weight or a bias in fixed point.
struct ParameterRole {
  std::string layer;
  FixedFormat format;
  uint64_t stream = 0;  // of its random numbers
};

// A gradient that an engine holds; `settle` writes its values to the host's tensor.
struct PendingGradient {
  std::shared_ptr<GradientSum> sum;
  size_t part = 0;
  int fraction_bits = 0;
  std::function<void(Tensor& host)> settle;
};

class EmulatedTensor final : public Tensor {
 public:
  explicit EmulatedTensor(std::unique_ptr<Tensor> host) : Tensor({host->shape(), host->batch()}), host_(std::move(host)) {}

  int64_t bytes() const override { return host_->bytes(); }
  Tensor& host() {
    settle();
    return *host_;
  }
  const Tensor& host() const {
    settle();
    return *host_;
  }

  void leave_with(PendingGradient pending) { pending_ = std::move(pending); }
  const PendingGradient* pending() const { return pending_ ? &*pending_ : nullptr; }
  // What was pending is not wanted any more.
  void forget() { pending_.reset(); }

  std::optional<ParameterRole> role;

 private:
  void settle() const {
    if (!pending_) return;
    const PendingGradient pending = std::move(*pending_);
    pending_.reset();
    pending.settle(*host_);
  }

  mutable std::optional<PendingGradient> pending_;
  std::unique_ptr<Tensor> host_;
};

// The host's tensor behind one of this device; null stays null.
inline Tensor* host_of(Tensor* tensor) {
  if (tensor == nullptr) return nullptr;
  auto* mine = dynamic_cast<EmulatedTensor*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "another device's tensor handed to the emulated FPGA");
  return &mine->host();
}
inline const Tensor* host_of(const Tensor* tensor) {
  if (tensor == nullptr) return nullptr;
  const auto* mine = dynamic_cast<const EmulatedTensor*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "another device's tensor handed to the emulated FPGA");
  return &mine->host();
}
template <typename Pointer>
std::vector<Pointer> hosts_of(std::span<const Pointer> tensors) {
  std::vector<Pointer> hosts;
  for (Pointer tensor : tensors) hosts.push_back(host_of(tensor));
  return hosts;
}
// `run(arguments)` on what lies behind each tensor, with everything else as it was.
template <typename Run>
void on_host(const ForwardArguments& arguments, Run run) {
  const auto inputs = hosts_of(arguments.inputs);
  const auto parameters = hosts_of(arguments.parameters);
  const auto state = hosts_of(arguments.state);
  ForwardArguments inner = arguments;
  inner.inputs = inputs;
  inner.output = host_of(arguments.output);
  inner.parameters = parameters;
  inner.state = state;
  inner.keep = host_of(arguments.keep);
  run(inner);
}
template <typename Run>
void on_host(const ErrorBackArguments& arguments, Run run) {
  const auto inputs = hosts_of(arguments.inputs);
  const auto errors = hosts_of(arguments.input_errors);
  const auto parameters = hosts_of(arguments.parameters);
  ErrorBackArguments inner = arguments;
  inner.inputs = inputs;
  inner.output = host_of(arguments.output);
  inner.output_error = host_of(arguments.output_error);
  inner.input_errors = errors;
  inner.parameters = parameters;
  inner.keep = host_of(arguments.keep);
  run(inner);
}
template <typename Run>
void on_host(const GradientArguments& arguments, Run run) {
  const auto inputs = hosts_of(arguments.inputs);
  const auto gradients = hosts_of(arguments.gradients);
  const auto state = hosts_of(arguments.state);
  GradientArguments inner = arguments;
  inner.inputs = inputs;
  inner.output_error = host_of(arguments.output_error);
  inner.gradients = gradients;
  inner.state = state;
  inner.keep = host_of(arguments.keep);
  run(inner);
}
inline std::vector<std::unique_ptr<Tensor>> wrapped_all(std::vector<std::unique_ptr<Tensor>> hosts) {
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (auto& host : hosts) tensors.push_back(std::make_unique<EmulatedTensor>(std::move(host)));
  return tensors;
}

// All values of a host's tensor.
inline std::vector<double> values_of(Device& host, const Tensor& tensor) {
  std::vector<double> values(to_size(tensor.elements()));
  host.read(tensor, whole(tensor), std::span<double>(values));
  return values;
}
inline void set_values(Device& host, Tensor& tensor, std::span<const double> values) { host.write(tensor, whole(tensor), values); }

inline std::vector<int16_t> elements_of(std::span<const double> values, FixedFormat format, ArithmeticCounters& counters) {
  std::vector<int16_t> elements;
  elements.reserve(values.size());
  for (const double value : values) elements.push_back(quantized(value, format, counters));
  return elements;
}
inline void round_values(Device& host, Tensor& tensor, FixedFormat format, ArithmeticCounters& counters) {
  std::vector<double> values = values_of(host, tensor);
  for (double& value : values) value = real_value(quantized(value, format, counters), format.fraction_bits);
  set_values(host, tensor, values);
}

}  // namespace millrace::emulated
