#include "fpga/calibration/measuring_device.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "core/device/recurrent_shape.h"

namespace millrace {

namespace {

class MeasuringKernel final : public Kernel {
 public:
  MeasuringKernel(const KernelSpec& spec, Device& device, LayerRanges& ranges)
      : device_(device), ranges_(ranges), kernel_(device.make_kernel(spec)) {
    if (const auto* cell = std::get_if<Recurrent>(&spec.operation); cell != nullptr && !spec.finish && !spec.activation)
      shape_.emplace(spec, *cell);
    if (!divides(spec.operation) || spec.finish || !spec.activation) return;
    KernelSpec bare = spec;
    bare.activation.reset();
    bare_ = device.make_kernel(bare);
    bare_sum_ = device.make_tensor({spec.output, spec.micro_batch});
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return kernel_->make_parameters(); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return kernel_->make_gradients(); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return kernel_->make_state(); }
  std::unique_ptr<Tensor> make_keep() override { return kernel_->make_keep(); }
  bool streams() const override { return kernel_->streams(); }
  void parameters_changed(std::span<const Tensor* const> parameters) override {
    kernel_->parameters_changed(parameters);
    if (bare_ != nullptr) bare_->parameters_changed(parameters);
  }

  void forward(const ForwardArguments& arguments) override {
    kernel_->forward(arguments);
    if (arguments.batch == nullptr || !arguments.batch->training) return;
    for (const Tensor* input : arguments.inputs) see(input, ranges_.input);
    see(arguments.output, ranges_.output);
    if (!arguments.parameters.empty()) see(arguments.parameters[0], ranges_.weight);
    if (arguments.parameters.size() > 1) see(arguments.parameters[1], ranges_.bias);
    if (shape_) return see_gates(arguments);
    if (bare_ == nullptr) {
      see(arguments.output, ranges_.sum);
      return;
    }
    ForwardArguments again = arguments;
    again.output = bare_sum_.get();
    bare_->forward(again);
    see(bare_sum_.get(), ranges_.sum);
  }
  void error_back(const ErrorBackArguments& arguments) override {
    see(arguments.output_error, ranges_.output_error);
    kernel_->error_back(arguments);
    for (const Tensor* error : arguments.input_errors) see(error, ranges_.input_error);
  }
  void parameter_gradient(const GradientArguments& arguments) override {
    kernel_->parameter_gradient(arguments);
    if (!arguments.gradients.empty()) see(arguments.gradients[0], ranges_.gradient);
    if (arguments.gradients.size() > 1) see(arguments.gradients[1], ranges_.bias_gradient);
  }

  std::string implementation() const override { return kernel_->implementation(); }

 private:
  void see(const Tensor* tensor, double& largest) {
    if (tensor == nullptr) return;
    values_.resize(to_size(tensor->elements()));
    device_.read(*tensor, whole(*tensor), std::span<double>(values_));
    for (const double value : values_) largest = std::max(largest, std::fabs(value));  // NaN is not larger
  }

  std::vector<double> values_of(const Tensor* tensor) {
    std::vector<double> values(to_size(tensor->elements()));
    device_.read(*tensor, whole(*tensor), std::span<double>(values));
    return values;
  }

  // W x + U h' and the biases, of all gates and steps. Steps behind a sample's end count too: their inputs are zeros.
  void see_gates(const ForwardArguments& arguments) {
    const RecurrentShape& s = *shape_;
    const std::vector<double> x = values_of(arguments.inputs[0]), h = values_of(arguments.output);
    const auto product = [&](std::span<const double> weights, std::span<const double> values, int64_t first_channel, int64_t t) {
      double sum = 0;
      for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * item(values, (first_channel + static_cast<int64_t>(i)) * s.steps + t);
      return sum;
    };
    for (int64_t d = 0; d < s.directions; ++d) {
      const std::vector<double> of_x = values_of(arguments.parameters[s.input_weight(d)]),
                                of_h = values_of(arguments.parameters[s.hidden_weight(d)]),
                                x_bias = values_of(arguments.parameters[s.input_bias(d)]),
                                h_bias = values_of(arguments.parameters[s.hidden_bias(d)]);
      see(arguments.parameters[s.hidden_weight(d)], ranges_.hidden_weight);
      see(arguments.parameters[s.input_weight(d)], ranges_.weight);
      if (s.projects) see(arguments.parameters[s.projection(d)], ranges_.weight);
      for (int64_t n = 0; n < s.samples; ++n)
        for (int64_t row = 0; row < s.gates * s.hidden; ++row)
          for (int64_t t = 0; t < s.steps; ++t) {
            const auto weights = [&](const std::vector<double>& of, int64_t columns) {
              return std::span(of).subspan(to_size(row * columns), to_size(columns));
            };
            const auto r = to_size(row);
            double sum = x_bias[r] + h_bias[r] + product(weights(of_x, s.inputs), x, n * s.inputs, t);
            if (const int64_t before = s.before(d, t); before >= 0 && before < s.steps)
              sum += product(weights(of_h, s.features), h, (n * s.directions + d) * s.features, before);
            ranges_.sum = std::max(ranges_.sum, std::fabs(sum));
          }
    }
  }

  Device& device_;
  LayerRanges& ranges_;
  std::optional<RecurrentShape> shape_;  // of a recurrent layer
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Kernel> bare_;  // without the fused activation; null where there is none
  std::unique_ptr<Tensor> bare_sum_;
  std::vector<double> values_;
};

class MeasuringDevice final : public Device {
 public:
  MeasuringDevice(std::unique_ptr<Device> device, NumberRanges& ranges) : device_(std::move(device)), ranges_(ranges) {}

  std::string description() const override { return device_->description(); }
  ElementType compute_type() const override { return device_->compute_type(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<MeasuringKernel>(spec, *device_, ranges_[spec.layer]);
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return device_->make_tensor(spec); }
  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override { device_->write(tensor, channels, host); }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override { device_->read(tensor, channels, host); }
  void zero(Tensor& tensor) override { device_->zero(tensor); }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    device_->copy_channels(from, channels, to, to_begin, add);
  }
  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    device_->update(arguments, parameter, gradient, slots);
  }
  double squared_norm(const Tensor& tensor) override { return device_->squared_norm(tensor); }
  bool all_finite(const Tensor& tensor) override { return device_->all_finite(tensor); }
  void synchronize() override { device_->synchronize(); }

 private:
  std::unique_ptr<Device> device_;
  NumberRanges& ranges_;
};

}  // namespace

std::unique_ptr<Device> make_measuring_device(std::unique_ptr<Device> device, NumberRanges& ranges) {
  return std::make_unique<MeasuringDevice>(std::move(device), ranges);
}

}  // namespace millrace
