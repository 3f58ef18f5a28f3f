#include "gpu/device/gpu_profile.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

namespace {

constexpr int kRounds = 5;

// The fastest of a few runs of so many calls each, by call; the first run warms up and does not count.
template <typename Work>
double fastest_of(Device& device, int calls, Work work) {
  using Clock = std::chrono::steady_clock;
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = -1; round < kRounds; ++round) {
    device.synchronize();
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) work();
    device.synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round >= 0) fastest = std::min(fastest, seconds / calls);
  }
  return std::max(fastest, 1e-9);
}

struct Rates {
  double forward = 0, error_back = 0, parameter_gradient = 0;  // multiply-accumulates per second
  double most() const { return std::max({forward, error_back, parameter_gradient}); }
};

Rates rates_of(Device& device, const KernelSpec& spec, double macs) {
  const auto kernel = device.make_kernel(spec);
  const auto parameters = kernel->make_parameters();
  const auto gradients = kernel->make_gradients();
  const TensorSpec in{spec.inputs[0], spec.micro_batch}, out{spec.output, spec.micro_batch};
  const auto input = device.make_tensor(in), input_error = device.make_tensor(in);
  const auto output = device.make_tensor(out), output_error = device.make_tensor(out);
  for (Tensor* tensor : {input.get(), output.get(), output_error.get(), parameters[0].get()}) device.zero(*tensor);
  const Tensor* x = input.get();
  const Tensor* w = parameters[0].get();
  Tensor* dx = input_error.get();
  Tensor* dw = gradients[0].get();
  constexpr uint8_t kOverwrites = 0;
  const MicroBatch batch;
  ForwardArguments forward;
  forward.inputs = {&x, 1};
  forward.output = output.get();
  forward.parameters = {&w, 1};
  forward.batch = &batch;
  ErrorBackArguments back;
  back.inputs = {&x, 1};
  back.output = output.get();
  back.output_error = output_error.get();
  back.input_errors = {&dx, 1};
  back.adds = {&kOverwrites, 1};
  back.parameters = {&w, 1};
  back.batch = &batch;
  GradientArguments gradient;
  gradient.inputs = {&x, 1};
  gradient.output_error = output_error.get();
  gradient.gradients = {&dw, 1};
  gradient.adds = false;
  gradient.batch = &batch;
  constexpr int kCalls = 4;
  return {macs / fastest_of(device, kCalls, [&] { kernel->forward(forward); }),
          macs / fastest_of(device, kCalls, [&] { kernel->error_back(back); }),
          macs / fastest_of(device, kCalls, [&] { kernel->parameter_gradient(gradient); })};
}

KernelSpec spec_of(Operation operation, const Shape& input, const Shape& output, int64_t batch) {
  KernelSpec spec;
  spec.layer = "profile";
  spec.operation = std::move(operation);
  spec.inputs = {input};
  spec.output = output;
  spec.micro_batch = batch;
  return spec;
}

}  // namespace

GpuProfile measure_gpu_profile(Device& device, std::string measured_on, double memory_bytes, const ProfileSizes& sizes) {
  GpuProfile profile;
  profile.measured_on = std::move(measured_on);
  profile.memory_bytes = memory_bytes;

  const Shape map{sizes.channels, sizes.extent, sizes.extent};
  const Rates convolution = rates_of(
      device, spec_of(Conv2d{.out_channels = sizes.channels, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, map, map, sizes.batch),
      static_cast<double>(sizes.batch * sizes.channels * sizes.channels * 9 * sizes.extent * sizes.extent));
  const Shape features{sizes.dense, 1, 1};
  const Rates dense = rates_of(device, spec_of(Dense{.out_features = sizes.dense}, features, features, sizes.dense),
                               static_cast<double>(sizes.dense) * static_cast<double>(sizes.dense) * static_cast<double>(sizes.dense));
  profile.macs_per_second = std::max(convolution.most(), dense.most());
  profile.convolution_forward = convolution.forward / profile.macs_per_second;
  profile.convolution_error_back = convolution.error_back / profile.macs_per_second;
  profile.convolution_parameter_gradient = convolution.parameter_gradient / profile.macs_per_second;
  profile.dense = std::min({dense.forward, dense.error_back, dense.parameter_gradient}) / profile.macs_per_second;

  const double bytes = static_cast<double>(sizes.copied) * sizeof(float);
  const auto from = device.make_tensor({{sizes.copied, 1, 1}, 1}), to = device.make_tensor({{sizes.copied, 1, 1}, 1});
  device.zero(*from);
  profile.bytes_per_second = 2 * bytes / fastest_of(device, 4, [&] { device.copy(*from, *to); });
  std::vector<float> host(to_size(sizes.copied));
  profile.upload_bytes_per_second = bytes / fastest_of(device, 1, [&] { device.write(*to, whole(*to), std::span<const float>(host)); });
  profile.download_bytes_per_second = bytes / fastest_of(device, 1, [&] { device.read(*from, whole(*from), std::span<float>(host)); });
  const auto small = device.make_tensor({{1, 1, 1}, 1}), other = device.make_tensor({{1, 1, 1}, 1});
  device.zero(*small);
  profile.launch_seconds = fastest_of(device, 1000, [&] { device.copy(*small, *other); });
  return profile;
}

CatalogueDevice measured_device(const GpuProfile& profile, CatalogueDevice base) {
  if (profile.precision != "fp32")
    fail(ErrorCode::kUsage, "the catalogue's efficiencies are those of fp32, and {} was measured", profile.precision);
  const auto put = [&](const char* name, double value, const char* unit) {
    CatalogueValue measured{name, value, unit, "measured", "on " + profile.measured_on};
    const auto found = std::ranges::find(base.values, std::string_view(name), &CatalogueValue::name);
    if (found == base.values.end())
      base.values.push_back(std::move(measured));
    else
      *found = std::move(measured);
  };
  put("macs_per_second_fp32", profile.macs_per_second, "1/s");
  put("efficiency_conv_forward", profile.convolution_forward, "1");
  put("efficiency_conv_error_back", profile.convolution_error_back, "1");
  put("efficiency_conv_parameter_gradient", profile.convolution_parameter_gradient, "1");
  put("efficiency_dense", profile.dense, "1");
  put("efficiency_memory", 1, "1");
  put("memory_bytes", profile.memory_bytes, "B");
  put("memory_bytes_per_second", profile.bytes_per_second, "B/s");
  put("pcie_bytes_per_second", std::min(profile.upload_bytes_per_second, profile.download_bytes_per_second), "B/s");
  put("launch_seconds", profile.launch_seconds, "s");
  return base;
}

}  // namespace millrace
