// What the CPU device promises beyond the right numbers: no allocation in steady state, the same bits again, no loops of
// oneDNN's reference, blocks that sum to the whole, Winograd within its tolerance.
#include "core/cpu/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/graph/zoo.h"
#include "core/reference/reference_device.h"
#include "tests/core/cpu/allocation_counter.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace::testing {

namespace {

// A case like those drawn at random, of one's own choosing.
OperationCase case_of(Operation operation, const Shape& input, int64_t batch, bool bias = false) {
  OperationCase c;
  c.spec.layer = "chosen";
  c.spec.operation = std::move(operation);
  c.spec.inputs = {input};
  c.spec.output = infer_shape(c.spec.operation, c.spec.inputs, "chosen");
  c.spec.micro_batch = batch;
  c.spec.bias = bias;
  c.adds = {0};
  c.seed = 5;
  c.name = "chosen";
  return c;
}

Conv2d square(int64_t out_channels, int64_t kernel, int64_t stride, int64_t pad) {
  return {.out_channels = out_channels,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

constexpr std::array kPhases{Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient};

// A device that computes this convolution in one way.
std::unique_ptr<Device> forced_device(const Conv2d& conv, const Shape& input, int64_t batch, ConvAlgorithm algorithm) {
  KernelTable table;
  for (const Phase phase : kPhases) table.set({conv, input, phase, batch, cpu::Engine(1, {}).isa}, algorithm);
  return cpu::make_device(1, table);
}

// Runs each phase of a kernel with its own tensors, as often as one likes.
class Repeater {
 public:
  Repeater(Device& device, const OperationCase& c) : case_(c), data_(data_of(c)), kernel_(device.make_kernel(c.spec)) {
    for (size_t i = 0; i < c.spec.inputs.size(); ++i) {
      inputs_.push_back(tensor_with(device, c.spec.inputs[i], c.spec.micro_batch, data_.inputs[i]));
      input_errors_.push_back(tensor_with(device, c.spec.inputs[i], c.spec.micro_batch, data_.inputs[i]));
    }
    output_ = tensor_with(device, c.spec.output, c.spec.micro_batch, data_.output_before);
    output_error_ = tensor_with(device, c.spec.output, c.spec.micro_batch, data_.output_error);
    parameters_ = kernel_->make_parameters();
    gradients_ = kernel_->make_gradients();
    for (size_t p = 0; p < parameters_.size(); ++p) {
      device.write(*parameters_[p], whole(*parameters_[p]), std::span<const double>(data_.parameters[p]));
      device.write(*gradients_[p], whole(*gradients_[p]), std::span<const double>(data_.gradients_before[p]));
    }
    state_ = kernel_->make_state();
    for (size_t s = 0; s < state_.size(); ++s) device.write(*state_[s], whole(*state_[s]), std::span<const double>(data_.state[s]));
    keep_ = kernel_->make_keep();
    x_ = const_pointers(inputs_), w_ = const_pointers(parameters_);
    dx_ = pointers(input_errors_), dw_ = pointers(gradients_), s_ = pointers(state_);
    batch_ = micro_batch_of(case_, data_);
  }

  std::vector<std::vector<double>> gradients(Device& device) const {
    std::vector<std::vector<double>> values;
    for (const auto& gradient : gradients_) values.push_back(values_of(device, *gradient));
    return values;
  }

  void run(bool adds) {
    Score score;
    kernel_->parameters_changed(w_);
    kernel_->forward({.inputs = x_,
                      .output = output_.get(),
                      .parameters = w_,
                      .state = s_,
                      .keep = keep_.get(),
                      .batch = &batch_,
                      .score = data_.labels.empty() ? nullptr : &score});
    kernel_->error_back({.inputs = x_,
                         .output = output_.get(),
                         .output_error = output_error_.get(),
                         .input_errors = dx_,
                         .adds = case_.adds,
                         .parameters = w_,
                         .keep = keep_.get(),
                         .batch = &batch_});
    if (!case_.spec.trained) return;
    kernel_->parameter_gradient({.inputs = x_,
                                 .output_error = output_error_.get(),
                                 .gradients = dw_,
                                 .adds = adds,
                                 .state = s_,
                                 .keep = keep_.get(),
                                 .batch = &batch_});
  }

 private:
  OperationCase case_;
  CaseData data_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<Tensor>> inputs_, input_errors_, parameters_, gradients_, state_;
  std::unique_ptr<Tensor> output_, output_error_, keep_;
  std::vector<const Tensor*> x_, w_;
  std::vector<Tensor*> dx_, dw_, s_;
  MicroBatch batch_;
};

void expect_close(const CaseResult& mine, const CaseResult& oracle, double tolerance) {
  EXPECT_LT(normwise_difference(mine.output, oracle.output), tolerance);
  EXPECT_LT(normwise_difference(mine.input_errors.at(0), oracle.input_errors.at(0)), tolerance);
  for (size_t i = 0; i < oracle.gradients.size(); ++i)
    EXPECT_LT(normwise_difference(mine.gradients[i], oracle.gradients[i]), tolerance) << "gradient " << i;
}

}  // namespace

TEST(CpuEngine, AllocatesNothingOnceKernelsAreMade) {
  for (const int threads : {1, 2}) {
    const auto device = make_cpu_device({.threads = threads});
    for (const OperationCase& c : operation_cases({.per_kind = 8, .most_channels = 24, .most_extent = 8, .most_batch = 3, .seed = 21})) {
      SCOPED_TRACE(c.name);
      Repeater repeater(*device, c);
      repeater.run(false);
      const AllocationCounter counter;
      repeater.run(true);
      ASSERT_EQ(counter.count(), 0);
    }
  }
}

// The first micro-batch of a mini-batch overwrites whatever is there; a second equal one doubles it.
TEST(CpuEngine, GradientsAreOverwrittenFirstAndAddedThen) {
  const auto device = make_cpu_device();
  for (OperationCase c : operation_cases({.per_kind = 10, .most_channels = 20, .most_extent = 6, .most_batch = 3, .seed = 24})) {
    if (!c.spec.trained || c.spec.activation) continue;  // E is run twice, and must not change its error
    if (const auto* cell = std::get_if<Recurrent>(&c.spec.operation); cell != nullptr && cell->stateful) continue;  // goes on
    c.training = true;
    SCOPED_TRACE(c.name);
    Repeater repeater(*device, c);
    repeater.run(false);
    const auto once = repeater.gradients(*device);
    repeater.run(true);
    const auto twice = repeater.gradients(*device);
    repeater.run(false);
    EXPECT_EQ(repeater.gradients(*device), once);
    for (size_t g = 0; g < once.size(); ++g) {
      std::vector<double> half = twice[g];
      for (double& value : half) value /= 2;
      EXPECT_LT(normwise_difference(half, once[g]), 1e-5);
    }
  }
}

TEST(CpuEngine, CountsAllocationsOfOurOwnCode) {
  const AllocationCounter counter;
  auto number = std::make_unique<int>(7);
  EXPECT_EQ(*number, 7);
  EXPECT_EQ(counter.count(), 1);
}

TEST(CpuEngine, GivesTheSameBitsAgain) {
  for (const OperationCase& c : operation_cases({.per_kind = 6, .most_channels = 36, .most_extent = 10, .most_batch = 4, .seed = 22})) {
    SCOPED_TRACE(c.name);
    const CaseData data = data_of(c);
    const CaseResult once = run_case(*make_cpu_device(), c, data);
    const CaseResult again = run_case(*make_cpu_device(), c, data);
    EXPECT_EQ(once.output, again.output);
    EXPECT_EQ(once.input_errors, again.input_errors);
    EXPECT_EQ(once.gradients, again.gradients);
    EXPECT_EQ(once.state, again.state);
  }
}

TEST(CpuEngine, DropsTheSameElementsAsTheReference) {
  const auto reference = make_reference_device(ElementType::kFloat32);
  const auto device = make_cpu_device({.threads = 2});
  for (const Shape& shape : {Shape{100, 1, 1}, Shape{20, 5, 3}, Shape{3, 7, 9}, Shape{12, 6, 1}}) {
    const OperationCase c = case_of(Dropout{0.4}, shape, 3);
    const CaseData data = data_of(c);
    EXPECT_EQ(run_case(*device, c, data).output, run_case(*reference, c, data).output) << text_of(shape);
  }
}

TEST(CpuEngine, ThreadsDoNotChangeNormalisationPoolingOrElementwiseResults) {
  const auto one = make_cpu_device({.threads = 1});
  const auto two = make_cpu_device({.threads = 2});
  for (const OperationCase& c : operation_cases({.per_kind = 6, .most_channels = 40, .most_extent = 16, .most_batch = 4, .seed = 23})) {
    if (std::holds_alternative<Conv2d>(c.spec.operation) || std::holds_alternative<Dense>(c.spec.operation)) continue;
    SCOPED_TRACE(c.name);
    const CaseData data = data_of(c);
    const CaseResult a = run_case(*one, c, data), b = run_case(*two, c, data);
    EXPECT_EQ(a.output, b.output);
    EXPECT_EQ(a.input_errors, b.input_errors);
    EXPECT_EQ(a.gradients, b.gradients);
  }
}

// Creation only: which implementation oneDNN picked for every convolution of the zoo. None may be its reference loops,
// and there are no exceptions.
TEST(CpuEngine, NoConvolutionOfTheZooRunsInReferenceLoops) {
  const auto device = make_cpu_device();
  std::vector<KernelSpec> seen;
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    for (const Node& node : graph.nodes()) {
      if (!std::holds_alternative<Conv2d>(node.layer.operation)) continue;
      for (const int64_t batch : {1, 8}) {
        KernelSpec spec;
        spec.layer = node.layer.name;
        spec.operation = node.layer.operation;
        spec.inputs = {node.input_shapes[0]};
        spec.output = node.output;
        spec.micro_batch = batch;
        spec.bias = std::get<Conv2d>(node.layer.operation).bias;
        spec.activation = Activation{};
        spec.input_error_needed = node.input_error_needed;
        const bool known = std::ranges::any_of(seen, [&](const KernelSpec& other) {
          return other.operation == spec.operation && other.inputs == spec.inputs && other.micro_batch == batch;
        });
        if (known) continue;
        seen.push_back(spec);
        EXPECT_THAT(device->make_kernel(spec)->implementation(), ::testing::Not(::testing::HasSubstr("ref")))
            << name << " " << node.layer.name << ", micro-batch " << batch;
      }
    }
  }
  EXPECT_GT(seen.size(), 100U);
}

TEST(CpuEngine, WinogradAndTapsStayWithinTheirTolerance) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  const Conv2d conv = square(32, 3, 1, 1);
  for (const auto& [algorithm, extent, name] :
       {std::tuple{ConvAlgorithm::kWinograd, int64_t{8}, "wino"}, std::tuple{ConvAlgorithm::kTaps, int64_t{2}, "sgemm per tap"},
        std::tuple{ConvAlgorithm::kTaps, int64_t{4}, "sgemm per tap, rows together"}}) {
    const Shape input{32, extent, extent};
    const OperationCase c = case_of(conv, input, 4, true);
    const auto device = forced_device(conv, input, 4, algorithm);
    if (algorithm == ConvAlgorithm::kTaps || cpu::Engine(1, {}).isa.starts_with("avx")) {
      EXPECT_THAT(device->make_kernel(c.spec)->implementation(), ::testing::HasSubstr(name));
    }
    const CaseData data = data_of(c);
    expect_close(run_case(*device, c, data), run_case(*oracle, c, data), 1e-4);
  }
}

// Kernels of any shape and padding over maps of five to sixteen positions, some taps of which reach nothing.
TEST(CpuEngine, SmallMapsTakeOneProductPerTap) {
  const auto oracle = make_reference_device(ElementType::kFloat64);
  for (const auto& [height, width, kernel_h, kernel_w, pad_h, pad_w, dilation] :
       {std::tuple{4, 4, 3, 3, 1, 1, 1}, std::tuple{3, 3, 3, 3, 1, 1, 1}, std::tuple{3, 5, 1, 1, 0, 0, 1}, std::tuple{4, 4, 3, 3, 2, 2, 2},
        std::tuple{2, 7, 3, 5, 1, 2, 1}, std::tuple{4, 3, 2, 3, 1, 1, 1}, std::tuple{3, 3, 7, 7, 3, 3, 1},
        std::tuple{2, 3, 3, 3, 2, 2, 1}}) {
    const Conv2d conv{.out_channels = 48,
                      .kernel_h = kernel_h,
                      .kernel_w = kernel_w,
                      .pad_h = pad_h,
                      .pad_w = pad_w,
                      .dilation_h = dilation,
                      .dilation_w = dilation};
    const Shape input{32, height, width};
    const OperationCase c = case_of(conv, input, 5, true);
    const auto device = forced_device(conv, input, 5, ConvAlgorithm::kTaps);
    const CaseData data = data_of(c);
    const bool small = c.spec.output.plane() > 4 && c.spec.output.plane() <= 16;
    EXPECT_EQ(device->make_kernel(c.spec)->implementation() == "sgemm per tap, rows together", small) << height << "x" << width;
    expect_close(run_case(*device, c, data), run_case(*oracle, c, data), 1e-5);
  }
}

TEST(CpuEngine, AnAlgorithmThatDoesNotExistFallsBackToTheDirectOne) {
  const Conv2d conv = square(24, 5, 2, 2);
  const Shape input{16, 11, 9};
  const OperationCase c = case_of(conv, input, 2, true);
  const CaseData data = data_of(c);
  const CaseResult direct = run_case(*forced_device(conv, input, 2, ConvAlgorithm::kDirect), c, data);
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::kWinograd, ConvAlgorithm::kTaps})
    EXPECT_EQ(run_case(*forced_device(conv, input, 2, algorithm), c, data).output, direct.output) << name_of(algorithm);
}

// Input channels divided in two: the second half adds its sum to the first, as the members of a group do.
TEST(CpuEngine, BlocksSumToTheWhole) {
  const auto device = make_cpu_device();
  for (const auto& [operation, input] :
       {std::pair{Operation(square(24, 3, 1, 1)), Shape{32, 9, 9}}, std::pair{Operation(square(20, 3, 2, 1)), Shape{21, 7, 8}},
        std::pair{Operation(Dense{.out_features = 10}), Shape{48, 1, 1}}}) {
    const OperationCase c = case_of(operation, input, 3);
    const CaseData data = data_of(c);
    const CaseResult full = run_case(*device, c, data);

    const int64_t half = input.channels / 2;
    const int64_t taps = static_cast<int64_t>(data.parameters[0].size()) / (c.spec.output.channels * input.channels);
    const auto x = tensor_with(*device, input, 3, data.inputs[0]);
    const auto y = device->make_tensor({.shape = c.spec.output, .batch = 3});
    const auto dy = tensor_with(*device, c.spec.output, 3, data.output_error);
    const auto dx = device->make_tensor({.shape = input, .batch = 3});
    for (const ChannelRange range : {ChannelRange{0, half}, ChannelRange{half, input.channels}}) {
      KernelSpec spec = c.spec;
      spec.inputs[0].channels = range.size();
      spec.adds_to_output = range.begin > 0;
      const auto kernel = device->make_kernel(spec);
      const auto slice = device->make_tensor({.shape = spec.inputs[0], .batch = 3});
      device->copy_channels(*x, range, *slice, 0, false);
      std::vector<double> weights;
      for (int64_t o = 0; o < c.spec.output.channels; ++o) {
        const auto row = data.parameters[0].begin() + o * input.channels * taps;
        weights.insert(weights.end(), row + range.begin * taps, row + range.end * taps);
      }
      const auto parameters = kernel->make_parameters();
      device->write(*parameters[0], whole(*parameters[0]), std::span<const double>(weights));
      const auto inputs = std::vector<const Tensor*>{slice.get()};
      const auto w = const_pointers(parameters);
      ForwardArguments forward;
      forward.inputs = inputs;
      forward.output = y.get();
      forward.parameters = w;
      kernel->forward(forward);
      const auto slice_error = device->make_tensor({.shape = spec.inputs[0], .batch = 3});
      const auto errors = std::vector<Tensor*>{slice_error.get()};
      const std::vector<uint8_t> adds{0};
      ErrorBackArguments back;
      back.inputs = inputs;
      back.output = y.get();
      back.output_error = dy.get();
      back.input_errors = errors;
      back.adds = adds;
      back.parameters = w;
      kernel->error_back(back);
      device->copy_channels(*slice_error, whole(*slice_error), *dx, range.begin, false);
    }
    EXPECT_LT(normwise_difference(values_of(*device, *y), full.output), 1e-6);
    EXPECT_LT(normwise_difference(values_of(*device, *dx), full.input_errors[0]), 1e-6);
  }
}

TEST(CpuEngine, CopiesChannelsBetweenAnyLayouts) {
  const auto device = make_cpu_device({.threads = 2});
  CaseDraw draw(3, "copies");
  for (int i = 0; i < 200; ++i) {
    const Shape plane{1, draw.between(1, 6), draw.between(1, 6)};
    Shape from_shape = plane, to_shape = plane;
    from_shape.channels = draw.between(1, 50), to_shape.channels = draw.between(1, 50);
    const int64_t count = draw.between(1, std::min(from_shape.channels, to_shape.channels));
    const int64_t from_begin = draw.between(0, from_shape.channels - count), to_begin = draw.between(0, to_shape.channels - count);
    const bool add = draw.one_in(2);
    const std::vector<double> from = draw.values(2 * from_shape.elements());
    std::vector<double> expected = draw.values(2 * to_shape.elements());
    const auto source = tensor_with(*device, from_shape, 2, from);
    const auto target = tensor_with(*device, to_shape, 2, expected);
    device->copy_channels(*source, {from_begin, from_begin + count}, *target, to_begin, add);
    for (int64_t sample = 0; sample < 2; ++sample)
      for (int64_t e = 0; e < count * plane.plane(); ++e) {
        double& value = expected[static_cast<size_t>((sample * to_shape.channels + to_begin) * plane.plane() + e)];
        const double moved = from[static_cast<size_t>((sample * from_shape.channels + from_begin) * plane.plane() + e)];
        value = add ? static_cast<double>(static_cast<float>(value) + static_cast<float>(moved)) : moved;
      }
    ASSERT_EQ(values_of(*device, *target), expected) << text_of(from_shape) << " to " << text_of(to_shape);
  }
}

// Padding must stay zero: what a sum over all stored numbers sees is what the canonical numbers give.
TEST(CpuEngine, PaddingStaysZeroUnderActivationsThatMoveZero) {
  const auto device = make_cpu_device();
  const Shape shape{20, 5, 5};
  OperationCase c = case_of(square(20, 3, 1, 1), shape, 2, true);
  c.spec.activation = Activation{ActivationKind::kSigmoid};
  const CaseData data = data_of(c);
  CaseRun run(*device, c, data);
  run.forward();
  double sum = 0;
  for (const double value : values_of(*device, *run.output)) sum += value * value;
  EXPECT_NEAR(device->squared_norm(*run.output), sum, 1e-9 * sum);
}

TEST(CpuEngine, RefusesToWorkWithoutThreads) { EXPECT_THROW(make_cpu_device({.threads = 0}), Error); }

}  // namespace millrace::testing
