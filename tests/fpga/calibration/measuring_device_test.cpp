// What a calibration sees: the largest number of each kind, sums before a fused activation among them.
#include "fpga/calibration/measuring_device.h"

#include <gtest/gtest.h>

#include <array>

#include "core/reference/reference_device.h"

namespace millrace {

TEST(MeasuringDevice, SeesTheLargestOfEachKind) {
  NumberRanges ranges;
  const auto device = make_measuring_device(make_reference_device(ElementType::kFloat32), ranges);
  KernelSpec spec;
  spec.layer = "fc";
  spec.operation = Dense{.out_features = 2};
  spec.inputs = {{2, 1, 1}};
  spec.output = {2, 1, 1};
  spec.bias = true;
  spec.activation = Activation{ActivationKind::kRelu};
  const auto kernel = device->make_kernel(spec);
  auto parameters = kernel->make_parameters();
  auto gradients = kernel->make_gradients();
  const auto tensor = [&](const std::array<double, 2>& values) {
    auto made = device->make_tensor({{2, 1, 1}, 1});
    device->write(*made, whole(*made), std::span<const double>(values));
    return made;
  };
  const std::array<double, 4> weight = {1, 2, -3, 0.5};
  const std::array<double, 2> bias = {0.25, -8};
  device->write(*parameters[0], whole(*parameters[0]), std::span<const double>(weight));
  device->write(*parameters[1], whole(*parameters[1]), std::span<const double>(bias));
  const auto input = tensor({1, -2}), output = tensor({0, 0}), error = tensor({0.5, 4}), input_error = tensor({0, 0});
  const Tensor* inputs[] = {input.get()};
  const Tensor* parameter_list[] = {parameters[0].get(), parameters[1].get()};
  Tensor* gradient_list[] = {gradients[0].get(), gradients[1].get()};
  MicroBatch batch;
  ForwardArguments forward;
  forward.inputs = inputs;
  forward.output = output.get();
  forward.parameters = parameter_list;
  forward.batch = &batch;
  kernel->forward(forward);
  // Sums 1 - 4 + 0.25 and -3 - 1 - 8: the ReLU leaves nothing of them.
  EXPECT_DOUBLE_EQ(ranges.at("fc").sum, 12);
  EXPECT_DOUBLE_EQ(ranges.at("fc").output, 0);
  EXPECT_DOUBLE_EQ(ranges.at("fc").input, 2);
  EXPECT_DOUBLE_EQ(ranges.at("fc").weight, 3);
  EXPECT_DOUBLE_EQ(ranges.at("fc").bias, 8);

  const std::array<double, 2> positive = {1, 1};  // as if the ReLU had let both through
  device->write(*output, whole(*output), std::span<const double>(positive));
  Tensor* input_errors[] = {input_error.get()};
  const uint8_t adds[] = {0};
  kernel->error_back({.inputs = inputs,
                      .output = output.get(),
                      .output_error = error.get(),
                      .input_errors = input_errors,
                      .adds = adds,
                      .parameters = parameter_list,
                      .batch = &batch});
  EXPECT_DOUBLE_EQ(ranges.at("fc").output_error, 4);
  EXPECT_DOUBLE_EQ(ranges.at("fc").input_error, 11.5);  // 0.5 * 1 + 4 * -3
  GradientArguments gradient;
  gradient.inputs = inputs;
  gradient.output_error = error.get();
  gradient.gradients = gradient_list;
  gradient.adds = false;
  gradient.batch = &batch;
  kernel->parameter_gradient(gradient);
  EXPECT_DOUBLE_EQ(ranges.at("fc").gradient, 8);
  EXPECT_DOUBLE_EQ(ranges.at("fc").bias_gradient, 4);

  // Evaluation is not measured.
  batch.training = false;
  device->write(*input, whole(*input), std::span<const double>(std::array<double, 2>{100, 100}));
  kernel->forward(forward);
  EXPECT_DOUBLE_EQ(ranges.at("fc").input, 2);
}

}  // namespace millrace
