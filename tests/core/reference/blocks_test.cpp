// Blocks of a convolution or dense layer, on kernels of their own, make up the whole: input channels (ICP), output
// channels (OCP), a boundary channel whose outputs two devices divide, and whole groups of a grouped convolution.
#include <gtest/gtest.h>

#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace {
namespace {

using testing::CaseData;
using testing::CaseDraw;
using testing::CaseResult;
using testing::const_pointers;
using testing::normwise_difference;
using testing::OperationCase;
using testing::pointers;
using testing::tensor_with;
using testing::values_of;

// The spec of one block; the first block to reach an output overwrites it, the last one adds the bias.
struct BlockStep {
  Block block;
  bool adds = false;
  bool last = false;
};

int64_t groups_of(const Operation& operation) {
  const auto* conv = std::get_if<Conv2d>(&operation);
  return conv == nullptr ? 1 : conv->groups;
}

// Outputs of a block within a grouped convolution are those of its input channels' groups.
KernelSpec spec_of(const KernelSpec& all, const BlockStep& step) {
  KernelSpec spec = all;
  spec.inputs[0].channels = step.block.inputs.size();
  spec.output.channels = step.block.outputs.size();
  if (auto* conv = std::get_if<Conv2d>(&spec.operation)) {
    conv->out_channels = step.block.outputs.size();
    conv->groups = std::max<int64_t>(conv->groups * step.block.outputs.size() / all.output.channels, 1);
  } else {
    std::get<Dense>(spec.operation).out_features = step.block.outputs.size();
  }
  spec.adds_to_output = step.adds;
  spec.bias = all.bias && step.last;
  spec.activation = step.last ? all.activation : std::nullopt;
  return spec;
}

// The part of a canonical weight that a block uses.
std::vector<double> weight_slice(const KernelSpec& all, const Block& block, const std::vector<double>& weight) {
  const int64_t inputs = all.inputs[0].channels / groups_of(all.operation);  // per output
  const int64_t taps = static_cast<int64_t>(weight.size()) / (all.output.channels * inputs);
  const ChannelRange used = groups_of(all.operation) > 1 ? ChannelRange{0, inputs} : block.inputs;
  std::vector<double> slice;
  for (int64_t output = block.outputs.begin; output < block.outputs.end; ++output)
    for (int64_t i = used.begin * taps; i < used.end * taps; ++i) slice.push_back(weight[static_cast<size_t>(output * inputs * taps + i)]);
  return slice;
}

std::vector<double> channel_slice(const std::vector<double>& values, ChannelRange range) {
  return {values.begin() + range.begin, values.begin() + range.end};
}

// F, E and G block by block, E and G in descending order, compared with the whole layer's.
void expect_blocks_make_the_whole(const KernelSpec& all, const std::vector<BlockStep>& steps, uint64_t seed) {
  const auto device = make_reference_device(ElementType::kFloat64);
  OperationCase c{.name = "whole", .spec = all, .adds = {0}, .seed = seed};
  CaseData data = data_of(c);
  for (auto& gradient : data.gradients_before) std::ranges::fill(gradient, 0.0);
  const CaseResult whole_layer = testing::run_case(*device, c, data);

  const int64_t n = all.micro_batch;
  const auto input = tensor_with(*device, all.inputs[0], n, data.inputs[0]);
  const auto output = device->make_tensor({.shape = all.output, .batch = n});
  const auto output_error = tensor_with(*device, all.output, n, data.output_error);
  const auto input_error = device->make_tensor({.shape = all.inputs[0], .batch = n});
  device->zero(*input_error);

  struct Part {
    KernelSpec spec;
    std::unique_ptr<Kernel> kernel;
    std::unique_ptr<Tensor> input, output;
    std::vector<std::unique_ptr<Tensor>> parameters;
  };
  std::vector<Part> parts;
  for (const BlockStep& step : steps) {
    Part part{.spec = spec_of(all, step), .kernel = nullptr, .input = nullptr, .output = nullptr, .parameters = {}};
    part.kernel = device->make_kernel(part.spec);
    part.input = device->make_tensor({.shape = part.spec.inputs[0], .batch = n});
    device->copy_channels(*input, step.block.inputs, *part.input, 0, false);
    part.output = device->make_tensor({.shape = part.spec.output, .batch = n});
    device->copy_channels(*output, step.block.outputs, *part.output, 0, false);
    part.parameters = part.kernel->make_parameters();
    ASSERT_EQ(part.parameters.size(), part.spec.bias ? 2u : 1u);
    device->write(*part.parameters[0], whole(*part.parameters[0]),
                  std::span<const double>(weight_slice(all, step.block, data.parameters[0])));
    if (part.spec.bias)
      device->write(*part.parameters[1], whole(*part.parameters[1]),
                    std::span<const double>(channel_slice(data.parameters[1], step.block.outputs)));
    const std::vector<const Tensor*> x = {part.input.get()};
    const auto p = const_pointers(part.parameters);
    part.kernel->forward({.inputs = x, .output = part.output.get(), .parameters = p, .state = {}});
    device->copy_channels(*part.output, {0, part.spec.output.channels}, *output, step.block.outputs.begin, false);
    parts.push_back(std::move(part));
  }
  EXPECT_LE(normwise_difference(values_of(*device, *output), whole_layer.output), 1e-13);

  for (size_t i = parts.size(); i-- > 0;) {
    Part& part = parts[i];
    const BlockStep& step = steps[i];
    const auto dy = device->make_tensor({.shape = part.spec.output, .batch = n});
    device->copy_channels(*output_error, step.block.outputs, *dy, 0, false);
    const auto dx = device->make_tensor({.shape = part.spec.inputs[0], .batch = n});
    device->copy_channels(*input_error, step.block.inputs, *dx, 0, false);
    const std::vector<const Tensor*> x = {part.input.get()};
    const std::vector<Tensor*> errors = {dx.get()};
    const std::vector<uint8_t> adds = {1};
    const auto p = const_pointers(part.parameters);
    part.kernel->error_back(
        {.inputs = x, .output = part.output.get(), .output_error = dy.get(), .input_errors = errors, .adds = adds, .parameters = p});
    // What the last block's E leaves is the error of the raw sum, which the others take on from.
    device->copy_channels(*dy, {0, part.spec.output.channels}, *output_error, step.block.outputs.begin, false);
    device->copy_channels(*dx, {0, part.spec.inputs[0].channels}, *input_error, step.block.inputs.begin, false);
    auto gradients = part.kernel->make_gradients();
    for (const auto& gradient : gradients) device->zero(*gradient);
    const auto g = pointers(gradients);
    part.kernel->parameter_gradient({.inputs = x, .output_error = dy.get(), .gradients = g, .state = {}});
    EXPECT_LE(normwise_difference(values_of(*device, *gradients[0]), weight_slice(all, step.block, whole_layer.gradients[0])), 1e-13)
        << "weight of block " << i;
    if (part.spec.bias) {
      const std::vector<double> expected = channel_slice(whole_layer.gradients[1], step.block.outputs);
      EXPECT_LE(normwise_difference(values_of(*device, *gradients[1]), expected), 1e-13) << "bias of block " << i;
    }
  }
  EXPECT_LE(normwise_difference(values_of(*device, *output_error), whole_layer.output_error), 1e-13);
  EXPECT_LE(normwise_difference(values_of(*device, *input_error), whole_layer.input_errors[0]), 1e-13);
}

// A layer with at least three input and two output channels, dense every third time.
KernelSpec random_layer(CaseDraw& draw, int64_t groups) {
  KernelSpec spec;
  spec.layer = "layer";
  spec.micro_batch = draw.between(1, 3);
  spec.bias = draw.one_in(2);
  if (draw.one_in(2)) spec.activation = Activation{.kind = ActivationKind::kLeakyRelu};
  if (groups == 1 && draw.one_in(3)) {
    spec.operation = Dense{.out_features = draw.between(2, 8), .bias = spec.bias};
    spec.inputs = {{draw.between(3, 9), draw.between(1, 3), 1}};
  } else {
    spec.operation = Conv2d{.out_channels = groups * draw.between(2, 5),
                            .kernel_h = draw.between(1, 3),
                            .kernel_w = draw.between(1, 3),
                            .stride_h = draw.between(1, 2),
                            .pad_h = draw.between(0, 1),
                            .pad_w = draw.between(0, 1),
                            .groups = groups,
                            .bias = spec.bias};
    spec.inputs = {{groups * draw.between(3, 5), draw.between(3, 5), draw.between(3, 5)}};
  }
  spec.output = infer_shape(spec.operation, spec.inputs, "layer");
  return spec;
}

TEST(Blocks, InputChannelsInChainOrder) {
  CaseDraw draw(1, "icp");
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const KernelSpec all = random_layer(draw, 1);
    const int64_t inputs = all.inputs[0].channels, outputs = all.output.channels;
    const int64_t a = draw.between(1, inputs - 2), b = draw.between(a + 1, inputs - 1);
    expect_blocks_make_the_whole(all,
                                 {{.block = {{0, a}, {0, outputs}}},
                                  {.block = {{a, b}, {0, outputs}}, .adds = true},
                                  {.block = {{b, inputs}, {0, outputs}}, .adds = true, .last = true}},
                                 static_cast<uint64_t>(i));
  }
}

TEST(Blocks, OutputChannels) {
  CaseDraw draw(1, "ocp");
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const KernelSpec all = random_layer(draw, 1);
    const int64_t inputs = all.inputs[0].channels, outputs = all.output.channels;
    const int64_t a = draw.between(1, outputs - 1);
    expect_blocks_make_the_whole(all,
                                 {{.block = {{0, inputs}, {0, a}}, .last = true}, {.block = {{0, inputs}, {a, outputs}}, .last = true}},
                                 static_cast<uint64_t>(i));
  }
}

// Channel c belongs to the upstream device for its first q outputs and to the downstream one for the rest; bias and
// activation follow with the last block over all outputs.
TEST(Blocks, BoundaryChannel) {
  CaseDraw draw(1, "boundary");
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const KernelSpec all = random_layer(draw, 1);
    const int64_t inputs = all.inputs[0].channels, outputs = all.output.channels;
    const int64_t c = draw.between(1, inputs - 2), q = draw.between(1, outputs - 1);
    expect_blocks_make_the_whole(all,
                                 {{.block = {{0, c}, {0, outputs}}},
                                  {.block = {{c, c + 1}, {0, q}}, .adds = true},
                                  {.block = {{c, c + 1}, {q, outputs}}, .adds = true},
                                  {.block = {{c + 1, inputs}, {0, outputs}}, .adds = true, .last = true}},
                                 static_cast<uint64_t>(i));
  }
}

TEST(Blocks, WholeGroups) {
  CaseDraw draw(1, "groups");
  for (int i = 0; i < 40; ++i) {
    SCOPED_TRACE(i);
    const int64_t groups = draw.between(2, 4);
    const KernelSpec all = random_layer(draw, groups);
    const int64_t in = all.inputs[0].channels / groups, out = all.output.channels / groups;
    const int64_t g = draw.between(1, groups - 1);
    expect_blocks_make_the_whole(
        all,
        {{.block = {{0, g * in}, {0, g * out}}, .last = true}, {.block = {{g * in, groups * in}, {g * out, groups * out}}, .last = true}},
        static_cast<uint64_t>(i));
  }
}

}  // namespace
}  // namespace millrace
