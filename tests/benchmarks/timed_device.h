// A device that does what another does and notes how long each layer's phases take.
//
//   TimedDevice timed(*device);
//   ... train on it ...
//   for (const auto& [what, seconds] : timed.seconds()) ...      // "conv1_1 FP", "conv1_1 update", ...
//
// Borrows the other device. Not thread safe. Only for devices whose calls are done when they return.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace millrace {

class TimedDevice final : public Device {
 public:
  explicit TimedDevice(Device& device) : device_(device) {}

  // By what, in order of first use.
  const std::vector<std::pair<std::string, double>>& seconds() const { return seconds_; }
  void reset() {
    for (auto& [what, seconds] : seconds_) seconds = 0;
  }

  std::string description() const override { return device_.description(); }
  ElementType compute_type() const override { return device_.compute_type(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<TimedKernel>(*this, spec.layer, device_.make_kernel(spec));
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return device_.make_tensor(spec); }
  void write(Tensor& t, ChannelRange c, ConstHostNumbers host) override {
    timed("transfer", [&] { device_.write(t, c, host); });
  }
  void read(const Tensor& t, ChannelRange c, HostNumbers host) override {
    timed("transfer", [&] { device_.read(t, c, host); });
  }
  void zero(Tensor& t) override {
    timed("zero", [&] { device_.zero(t); });
  }
  void copy_channels(const Tensor& from, ChannelRange c, Tensor& to, int64_t begin, bool add) override {
    timed("copy", [&] { device_.copy_channels(from, c, to, begin, add); });
  }
  void update(const UpdateArguments& a, Tensor& p, const Tensor& g, std::span<Tensor* const> slots) override {
    timed("update", [&] { device_.update(a, p, g, slots); });
  }
  double squared_norm(const Tensor& t) override { return device_.squared_norm(t); }
  bool all_finite(const Tensor& t) override { return device_.all_finite(t); }
  void synchronize() override { device_.synchronize(); }

 private:
  class TimedKernel final : public Kernel {
   public:
    TimedKernel(TimedDevice& device, std::string layer, std::unique_ptr<Kernel> kernel)
        : device_(device), kernel_(std::move(kernel)), fp_(layer + " FP"), eb_(layer + " EB"), pg_(layer + " PG") {}
    std::vector<std::unique_ptr<Tensor>> make_parameters() override { return kernel_->make_parameters(); }
    std::vector<std::unique_ptr<Tensor>> make_gradients() override { return kernel_->make_gradients(); }
    std::vector<std::unique_ptr<Tensor>> make_state() override { return kernel_->make_state(); }
    std::unique_ptr<Tensor> make_keep() override { return kernel_->make_keep(); }
    bool streams() const override { return kernel_->streams(); }
    void parameters_changed(std::span<const Tensor* const> parameters) override { kernel_->parameters_changed(parameters); }
    void forward(const ForwardArguments& a) override {
      device_.timed(fp_, [&] { kernel_->forward(a); });
    }
    void error_back(const ErrorBackArguments& a) override {
      device_.timed(eb_, [&] { kernel_->error_back(a); });
    }
    void parameter_gradient(const GradientArguments& a) override {
      device_.timed(pg_, [&] { kernel_->parameter_gradient(a); });
    }
    std::string implementation() const override { return kernel_->implementation(); }

   private:
    TimedDevice& device_;
    std::unique_ptr<Kernel> kernel_;
    std::string fp_, eb_, pg_;
  };

  template <typename Work>
  void timed(const std::string& what, Work work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    const auto [place, fresh] = places_.try_emplace(what, seconds_.size());
    if (fresh) seconds_.emplace_back(what, 0.0);
    seconds_[place->second].second += passed.count();
  }

  Device& device_;
  std::vector<std::pair<std::string, double>> seconds_;
  std::map<std::string, size_t> places_;
};

}  // namespace millrace
