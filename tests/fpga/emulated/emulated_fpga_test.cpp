// The emulated FPGA as a device of the ring: close to real numbers, exact where it promises, and able to learn.
#include "fpga/emulated/emulated_fpga.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/cpu/cpu_device.h"
#include "core/reference/reference_device.h"
#include "node/ring/ring_trainer.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

constexpr int64_t kSamples = 2;

KernelSpec convolution_spec(int64_t inputs, bool adds, bool bias) {
  KernelSpec spec;
  spec.layer = "conv";
  spec.operation = Conv2d{.out_channels = 5, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .bias = bias};
  spec.inputs = {{inputs, 6, 7}};
  spec.output = {5, 6, 7};
  spec.micro_batch = kSamples;
  spec.adds_to_output = adds;
  spec.bias = bias;
  return spec;
}

std::vector<double> random_values(size_t count, double size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> draw(-size, size);
  std::vector<double> values(count);
  for (double& value : values) value = draw(random);
  return values;
}

// One convolution's three phases on a device.
struct Phases {
  std::vector<double> output, input_error, weight_gradient, bias_gradient;
};
Phases run(Device& device, const KernelSpec& spec, double error_scale) {
  const auto read = [&device](const Tensor& tensor) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    device.read(tensor, whole(tensor), std::span<double>(values));
    return values;
  };
  const auto fill = [&device](Tensor& tensor, double size, uint64_t seed) {
    const std::vector<double> values = random_values(static_cast<size_t>(tensor.elements()), size, seed);
    device.write(tensor, whole(tensor), std::span<const double>(values));
  };
  const auto kernel = device.make_kernel(spec);
  auto parameters = kernel->make_parameters();
  auto gradients = kernel->make_gradients();
  auto input = device.make_tensor({spec.inputs[0], kSamples});
  auto output = device.make_tensor({spec.output, kSamples});
  auto error = device.make_tensor({spec.output, kSamples});
  auto input_error = device.make_tensor({spec.inputs[0], kSamples});
  fill(*input, 1, 1);
  fill(*error, error_scale, 2);
  for (size_t i = 0; i < parameters.size(); ++i) fill(*parameters[i], 0.4, 3 + i);
  MicroBatch batch;
  batch.error_scale = error_scale;
  const Tensor* inputs[] = {input.get()};
  std::vector<const Tensor*> parameter_list;
  std::vector<Tensor*> gradient_list;
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameter_list.push_back(parameters[i].get());
    gradient_list.push_back(gradients[i].get());
  }
  ForwardArguments forward;
  forward.inputs = inputs;
  forward.output = output.get();
  forward.parameters = parameter_list;
  forward.batch = &batch;
  kernel->forward(forward);
  Tensor* input_errors[] = {input_error.get()};
  const uint8_t adds[] = {0};
  kernel->error_back({.inputs = inputs,
                      .output = output.get(),
                      .output_error = error.get(),
                      .input_errors = input_errors,
                      .adds = adds,
                      .parameters = parameter_list,
                      .batch = &batch});
  GradientArguments gradient;
  gradient.inputs = inputs;
  gradient.output_error = error.get();
  gradient.gradients = gradient_list;
  gradient.adds = false;
  gradient.batch = &batch;
  kernel->parameter_gradient(gradient);
  return {read(*output), read(*input_error), read(*gradients[0]), read(*gradients[1])};
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance, const char* what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << what << " " << i;
}

}  // namespace

TEST(EmulatedFpga, StaysWithinAFewStepsOfRealNumbers) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  for (const double scale : {1.0, 1.0 / 32, 1.0 / 128}) {
    const KernelSpec spec = convolution_spec(4, false, true);
    const Phases expected = run(*oracle, spec, scale);
    const Phases found = run(*device, spec, scale);
    expect_near(found.output, expected.output, 0.01, "output");
    expect_near(found.input_error, expected.input_error, 0.01 * scale, "input error");
    expect_near(found.weight_gradient, expected.weight_gradient, 0.02 * scale, "weight gradient");
    expect_near(found.bias_gradient, expected.bias_gradient, 0.01 * scale, "bias gradient");
  }
  const LayerArithmetic& counters = device->counters().at("conv");
  EXPECT_EQ(counters.sums.saturated, 0);
  EXPECT_EQ(counters.gradients.accumulator_overflows, 0);
  EXPECT_GT(counters.inputs.rounded, 0);
}

TEST(EmulatedFpga, SinglePrecisionIsTheReferencesSum) {
  const auto oracle = make_reference_device(ElementType::kFloat32);
  const auto device = make_emulated_fpga(EngineArithmetic::kFloat32);
  const KernelSpec spec = convolution_spec(4, false, true);
  const Phases expected = run(*oracle, spec, 0.25);
  const Phases found = run(*device, spec, 0.25);
  expect_near(found.output, expected.output, 1e-5, "output");
  expect_near(found.input_error, expected.input_error, 1e-5, "input error");
  expect_near(found.weight_gradient, expected.weight_gradient, 1e-5, "weight gradient");
}

TEST(EmulatedFpga, GivesOutSixteenBitNumbersAlone) {
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  const Phases found = run(*device, convolution_spec(3, false, true), 1.0 / 32);
  for (const double value : found.output) EXPECT_EQ(std::ldexp(value, 11), std::nearbyint(std::ldexp(value, 11)));
}

// Calibrated formats: every phase computes in them, and finer ones come closer to real numbers than the engine's own.
TEST(EmulatedFpga, ComputesInTheFormatsGiven) {
  const KernelSpec spec = convolution_spec(3, false, true);
  const double scale = 1.0 / 32;
  const EngineFormats finer{.activation = {14}, .weight = {15}, .sum = {13}, .error = {19}, .input_error = {18}};
  const auto oracle = make_reference_device(ElementType::kFloat64);
  const Phases expected = run(*oracle, spec, scale);
  const auto coarse = make_emulated_fpga(EngineArithmetic::kFixed16);
  const Phases with_own = run(*coarse, spec, scale);
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  device->use_formats({{"conv", finer}});
  const Phases found = run(*device, spec, scale);
  const auto on_grid = [](const std::vector<double>& values, int bits) {
    return std::ranges::all_of(values, [bits](double value) { return std::ldexp(value, bits) == std::nearbyint(std::ldexp(value, bits)); });
  };
  EXPECT_TRUE(on_grid(found.output, 13) && !on_grid(found.output, 12));
  EXPECT_TRUE(on_grid(found.input_error, 18) && !on_grid(found.input_error, 17));
  const auto distance = [](const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(sum / static_cast<double>(a.size()));
  };
  EXPECT_LT(distance(found.output, expected.output), distance(with_own.output, expected.output) / 2);
  EXPECT_LT(distance(found.input_error, expected.input_error), distance(with_own.input_error, expected.input_error));
  EXPECT_LT(distance(found.weight_gradient, expected.weight_gradient), distance(with_own.weight_gradient, expected.weight_gradient));
  EXPECT_EQ(device->counters().at("conv").formats, finer);
  EXPECT_EQ(device->counters().at("conv").sums.saturated, 0);
}

// Formats too narrow for the numbers: what does not fit is the largest number, and is counted.
TEST(EmulatedFpga, CountsWhatDoesNotFit) {
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  device->use_formats({{"conv", {.activation = {15}, .weight = {15}, .sum = {15}, .error = {12}, .input_error = {12}}}});
  const Phases found = run(*device, convolution_spec(4, false, true), 1);
  const LayerArithmetic& counters = device->counters().at("conv");
  EXPECT_GT(counters.sums.saturated + counters.outputs.saturated, 0);
  for (const double value : found.output) EXPECT_LE(std::fabs(value), 1.0);
}

TEST(EmulatedFpga, UpdatesAreStochasticAndRepeatable) {
  const auto trained = [] {
    const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
    const auto kernel = device->make_kernel(convolution_spec(4, false, true));
    auto weights = kernel->make_parameters();
    auto gradients = kernel->make_gradients();
    const auto count = static_cast<size_t>(weights[0]->elements());
    device->zero(*weights[0]);
    const std::vector<double> gradient(count, 1.0);
    device->write(*gradients[0], whole(*gradients[0]), std::span<const double>(gradient));
    // A quarter of a step each time: rounding to the nearest would lose every one.
    const UpdateArguments arguments{.optimizer = {.kind = OptimizerKind::kSgd}, .learning_rate = 0.25 * std::ldexp(1.0, -13)};
    for (int64_t step = 1; step <= 64; ++step) {
      UpdateArguments update = arguments;
      update.step = step;
      device->update(update, *weights[0], *gradients[0], {});
    }
    std::vector<double> values(count);
    device->read(*weights[0], whole(*weights[0]), std::span<double>(values));
    return values;
  };
  const std::vector<double> first = trained();
  double sum = 0;
  for (const double value : first) sum += std::ldexp(value, 13);
  EXPECT_NEAR(sum / static_cast<double>(first.size()), -16, 1.0);
  EXPECT_EQ(first, trained());
}

// A batch norm's sums are whole numbers of the inputs' steps, around a mean on one of them; at U the average moves to what they say.
TEST(EmulatedFpga, GathersStatisticsInWholeNumbers) {
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  KernelSpec spec;
  spec.layer = "norm";
  spec.operation = BatchNorm{.momentum = 0.5, .statistics = Statistics::kRunning};
  spec.inputs = {{1, 2, 2}};
  spec.output = {1, 2, 2};
  spec.micro_batch = kSamples;
  const auto kernel = device->make_kernel(spec);
  auto parameters = kernel->make_parameters();
  auto gradients = kernel->make_gradients();
  auto state = kernel->make_state();
  auto keep = kernel->make_keep();
  auto input = device->make_tensor({spec.inputs[0], kSamples}), output = device->make_tensor({spec.output, kSamples}),
       error = device->make_tensor({spec.output, kSamples});
  const auto set = [&](Tensor& tensor, const std::vector<double>& values) {
    device->write(tensor, whole(tensor), std::span<const double>(values));
  };
  const auto get = [&](const Tensor& tensor) {
    std::vector<double> values(static_cast<size_t>(tensor.elements()));
    device->read(tensor, whole(tensor), std::span<double>(values));
    return values;
  };
  const std::vector<double> x = {0.5, 1.25, -2, 3.75, 0, 1, 2.5, -0.25};
  constexpr double kMean = 0.3001;
  set(*input, x);
  set(*parameters[0], {1}), set(*parameters[1], {0});
  set(*state[0], {kMean}), set(*state[1], {2}), set(*state[2], {0}), set(*state[3], {0}), set(*state[4], std::vector<double>(5));
  set(*error, std::vector<double>(8, 0.5));
  const Tensor* inputs[] = {input.get()};
  const Tensor* weights[] = {parameters[0].get(), parameters[1].get()};
  Tensor* sums[] = {gradients[0].get(), gradients[1].get()};
  Tensor* states[] = {state[0].get(), state[1].get(), state[2].get(), state[3].get(), state[4].get()};
  const MicroBatch batch;
  kernel->forward({.inputs = inputs, .output = output.get(), .parameters = weights, .state = states, .keep = keep.get(), .batch = &batch});
  const int fraction = device->counters().at("norm").formats.sum.fraction_bits;
  const double centre = std::ldexp(std::nearbyint(std::ldexp(kMean, fraction)), -fraction);
  ASSERT_NE(centre, kMean);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(get(*output)[i], (x[i] - kMean) / std::sqrt(2 + 1e-5), std::ldexp(1.0, -fraction)) << i;
  int64_t distance = 0, square = 0;
  for (const double value : x) {
    const auto steps = static_cast<int64_t>(std::ldexp(value - centre, fraction));
    distance += steps;
    square += steps * steps;
  }
  const double first = std::ldexp(static_cast<double>(distance), -fraction), moved = centre - kMean;
  kernel->parameter_gradient(
      {.inputs = inputs, .output_error = error.get(), .gradients = sums, .state = states, .keep = keep.get(), .batch = &batch});
  const std::vector<double> gathered = get(*state[4]);
  EXPECT_DOUBLE_EQ(gathered[0], first + 8 * moved);
  EXPECT_DOUBLE_EQ(gathered[1], std::ldexp(static_cast<double>(square), -2 * fraction) + 2 * moved * first + 8 * moved * moved);
  EXPECT_EQ(gathered[2], 8);
  EXPECT_EQ(get(*state[0])[0], kMean) << "not before the update";
  kernel->commit_statistics(states);
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / 8;
  for (const double value : x) variance += (value - mean) * (value - mean) / 7;
  EXPECT_NEAR(get(*state[0])[0], (kMean + mean) / 2, 1e-12);
  EXPECT_NEAR(get(*state[1])[0], (2 + variance) / 2, 1e-12);
  EXPECT_EQ(get(*state[4]), std::vector<double>(5));
}

TEST(EmulatedFpga, RefusesWhatTheEngineCannotDo) {
  const auto device = make_emulated_fpga(EngineArithmetic::kFixed16);
  KernelSpec spec;
  spec.layer = "loss";
  spec.operation = CtcLoss{};
  spec.inputs = {{4, 3, 1}};
  spec.output = {4, 3, 1};
  expect_error(ErrorCode::kUnavailable, "loss: the emulated FPGA has no CTC loss", [&] { device->make_kernel(spec); });
}

// A network trained twice from the same weights: 16 bits within a point of single precision on the shipped digits.
TEST(EmulatedFpga, LearnsTheDigitsInSixteenBits) {
  Job job;
  job.model = "digits-cnn";
  job.data = "digits";
  job.epochs = 4;
  job.seed = 1;
  const TrainingTask task = prepare_task(job);
  const TrainingOutcome single = train_alone(task, [](int64_t) { return make_cpu_device({.threads = 1}); });
  const TrainingOutcome fixed = train_alone(task, [](int64_t) { return make_emulated_fpga(EngineArithmetic::kFixed16); });
  EXPECT_GT(single.test.accuracy, 0.9);
  EXPECT_GE(fixed.test.accuracy, single.test.accuracy - 0.01) << "fp32 " << single.test.accuracy;
  RecordProperty("fp32_accuracy", std::to_string(single.test.accuracy));
  RecordProperty("fixed16_accuracy", std::to_string(fixed.test.accuracy));
}

}  // namespace millrace
