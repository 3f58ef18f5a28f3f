// The CPU device in bf16: every pass of convolutions and dense layers against fp64 over operands rounded to bf16, whatever lies in scratch
// memory; the same bits again; which layers it takes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/cpu/engine.h"
#include "core/cpu/instruction_set.h"
#include "core/device/activation_math.h"
#include "core/reference/reference_device.h"
#include "tests/core/operation_cases.h"
#include "tests/core/operation_runner.h"

namespace millrace::testing {

namespace {

// The nearest bf16, ties to even.
double rounded(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u));
}
std::vector<double> rounded(std::vector<double> values) {
  for (double& value : values) value = rounded(value);
  return values;
}

std::shared_ptr<cpu::Engine> half_engine(int threads) { return std::make_shared<cpu::Engine>(threads, KernelTable(), true); }

// Scratch memory full of NaNs: nothing may be read there that was not written.
void spoil(cpu::Engine& engine) {
  constexpr size_t kBytes = size_t{1} << 23;
  engine.arena.reserve(kBytes);
  std::memset(engine.arena.at<char>(0), 0xff, kBytes);
}

bool computes_in_bf16(const std::string& implementation) { return implementation.find("bf16") != std::string::npos; }

OperationCase draw_case(CaseDraw& draw, bool dense) {
  OperationCase c;
  KernelSpec& spec = c.spec;
  spec.layer = "drawn";
  spec.bias = draw.one_in(2);
  const bool whole_blocks = !draw.one_in(4);
  const auto channels = [&] { return whole_blocks ? 16 * draw.between(1, 3) : draw.between(1, 40); };
  if (dense) {
    spec.operation = Dense{.out_features = draw.between(1, 70), .bias = spec.bias};
    spec.inputs = {draw.one_in(3) ? Shape{draw.between(1, 50), draw.between(2, 6), 1} : Shape{draw.between(1, 70), 1, 1}};
  } else {
    Conv2d conv;
    conv.bias = spec.bias;
    conv.groups = draw.one_in(5) ? 2 : 1;
    conv.out_channels = channels() * conv.groups;
    const int64_t square = draw.between(1, 3);
    conv.kernel_h = square == 1 ? 3 : square == 2 ? 1 : draw.between(1, 5);
    conv.kernel_w = square == 3 ? draw.between(1, 5) : conv.kernel_h;
    conv.stride_h = draw.one_in(3) ? draw.between(2, 3) : 1;
    conv.stride_w = draw.one_in(3) ? draw.between(2, 3) : 1;
    conv.dilation_h = draw.one_in(4) ? 2 : 1;
    conv.dilation_w = draw.one_in(4) ? 2 : 1;
    conv.pad_h = draw.between(0, (conv.kernel_h - 1) * conv.dilation_h);
    conv.pad_w = draw.between(0, (conv.kernel_w - 1) * conv.dilation_w);
    const auto extent = [&](int64_t kernel, int64_t dilation, int64_t pad) {
      return std::max(draw.between(1, 13), (kernel - 1) * dilation + 1 - 2 * pad);
    };
    // Long narrow maps, too.
    const int64_t height = draw.one_in(4) ? 1 : extent(conv.kernel_h, conv.dilation_h, conv.pad_h);
    const int64_t width = draw.one_in(6) ? draw.between(14, 40) : extent(conv.kernel_w, conv.dilation_w, conv.pad_w);
    spec.inputs = {{channels() * conv.groups, std::max(height, (conv.kernel_h - 1) * conv.dilation_h + 1 - 2 * conv.pad_h), width}};
    spec.operation = conv;
  }
  spec.output = infer_shape(spec.operation, spec.inputs, "drawn");
  spec.micro_batch = draw.one_in(3) ? draw.between(5, 19) : draw.between(1, 4);
  spec.adds_to_output = draw.one_in(3);
  if (draw.one_in(2)) spec.activation = Activation{.kind = draw.one_in(3) ? ActivationKind::kTanh : ActivationKind::kRelu};
  c.adds = {static_cast<uint8_t>(draw.one_in(2))};
  c.seed = static_cast<uint64_t>(draw.between(1, 1 << 20));
  return c;
}

std::string text_of_case(const OperationCase& c, const std::string& implementation) {
  std::string text = fmt::format("batch {}, {} to {}, bias {}, sum {}, activation {}, {}", c.spec.micro_batch, text_of(c.spec.inputs[0]),
                                 text_of(c.spec.output), c.spec.bias, c.spec.adds_to_output, c.spec.activation.has_value(), implementation);
  if (const auto* conv = std::get_if<Conv2d>(&c.spec.operation))
    text += fmt::format(", kernel {}x{}, stride {},{}, padding {},{}, dilation {},{}, groups {}", conv->kernel_h, conv->kernel_w,
                        conv->stride_h, conv->stride_w, conv->pad_h, conv->pad_w, conv->dilation_h, conv->dilation_w, conv->groups);
  return text;
}

// What the kernel made, against fp64 that begins with the operands as the kernel had them: the errors of a fused activation follow from the
// kernel's own output, as a ReLU near zero would go another way.
void expect_of_rounded_operands(const OperationCase& c, const CaseResult& mine, const CaseData& data) {
  constexpr double kBound = 1e-5;
  const auto oracle = make_reference_device(ElementType::kFloat64);
  OperationCase plain = c;
  plain.spec.activation.reset();
  CaseData half = data;
  half.inputs[0] = rounded(half.inputs[0]);
  half.parameters[0] = rounded(half.parameters[0]);
  half.output_error = rounded(mine.output_error);
  CaseResult expected = run_case(*oracle, plain, half);
  if (c.spec.activation) {
    const ActivationMath<double> math(*c.spec.activation);
    for (double& value : expected.output) value = math(value);
  }
  EXPECT_LT(normwise_difference(mine.output, expected.output), kBound) << "output";
  EXPECT_LT(normwise_difference(mine.input_errors[0], expected.input_errors[0]), kBound) << "input error";
  EXPECT_LT(normwise_difference(mine.gradients[0], expected.gradients[0]), kBound) << "gradient of the weight";
  if (!c.spec.bias) return;
  half.output_error = mine.output_error;  // a bias is no operand of a product
  EXPECT_LT(normwise_difference(mine.gradients[1], run_case(*oracle, plain, half).gradients[1]), kBound) << "gradient of the bias";
}

void compare_drawn(bool dense, int threads, int64_t count, int64_t least) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "needs a processor with AVX-512 BF16";
  const auto engine = half_engine(threads);
  const auto device = cpu::make_device(engine);
  CaseDraw draw(static_cast<uint64_t>(40 + threads), dense ? "dense layers in bf16" : "convolutions in bf16");
  int64_t in_bf16 = 0;
  for (int64_t i = 0; i < count; ++i) {
    const OperationCase c = draw_case(draw, dense);
    const std::string implementation = device->make_kernel(c.spec)->implementation();
    if (!computes_in_bf16(implementation)) continue;
    ++in_bf16;
    SCOPED_TRACE(text_of_case(c, implementation));
    const CaseData data = data_of(c);
    spoil(*engine);
    const CaseResult mine = run_case(*device, c, data);
    expect_of_rounded_operands(c, mine, data);
    spoil(*engine);
    EXPECT_EQ(run_case(*device, c, data).gradients, mine.gradients) << "another time";
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(in_bf16, least);
}

OperationCase convolution_of(const Shape& input, Conv2d conv) {
  conv.bias = false;
  OperationCase c;
  c.spec.layer = "chosen";
  c.spec.operation = conv;
  c.spec.inputs = {input};
  c.spec.output = infer_shape(c.spec.operation, c.spec.inputs, "chosen");
  c.spec.micro_batch = 8;
  c.adds = {0};
  c.seed = 7;
  return c;
}

}  // namespace

TEST(CpuHalves, ConvolutionsAreThoseOfRoundedOperands) { compare_drawn(false, 1, 200, 20); }
TEST(CpuHalves, ConvolutionsOfTwoThreadsAre) { compare_drawn(false, 2, 60, 5); }
TEST(CpuHalves, DenseLayersAreThoseOfRoundedOperands) { compare_drawn(true, 1, 100, 60); }

// oneDNN's parameter gradient reads scratch memory here that it has not written.
TEST(CpuHalves, NarrowMapsWithAStrideDoNotReadWhatOthersLeft) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "needs a processor with AVX-512 BF16";
  const auto engine = half_engine(1);
  const auto device = cpu::make_device(engine);
  const OperationCase c =
      convolution_of({16, 4, 2}, {.out_channels = 48, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 3, .pad_h = 1, .pad_w = 2});
  ASSERT_TRUE(computes_in_bf16(device->make_kernel(c.spec)->implementation()));
  spoil(*engine);
  const CaseData data = data_of(c);
  expect_of_rounded_operands(c, run_case(*device, c, data), data);
}

// Samples in more than one tile of rows and of depth, blocks without a partner, groups, maps of four positions, holes between taps.
TEST(CpuHalves, TilesHoldSamplesAndBlocksOfAnyCount) {
  if (!cpu::has_tiles()) GTEST_SKIP() << "needs a processor with AMX";
  struct Chosen {
    Shape input;
    Conv2d conv;
    int64_t samples;
  };
  const Conv2d plain{.out_channels = 48, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  Conv2d grouped{.out_channels = 96, .kernel_h = 2, .kernel_w = 3, .stride_h = 2, .pad_w = 2};
  grouped.groups = 2;
  grouped.dilation_w = 2;
  const Conv2d apart{.out_channels = 16, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2};
  for (const Chosen& chosen : {Chosen{{80, 4, 4}, plain, 33}, Chosen{{16, 5, 3}, plain, 16}, Chosen{{64, 2, 2}, plain, 70},
                               Chosen{{96, 5, 6}, grouped, 17}, Chosen{{48, 7, 9}, apart, 32}, Chosen{{32, 3, 3}, plain, 4}}) {
    OperationCase c = convolution_of(chosen.input, chosen.conv);
    c.spec.micro_batch = chosen.samples;
    std::vector<CaseResult> results;
    for (const int threads : {1, 3}) {
      const auto engine = half_engine(threads);
      const auto device = cpu::make_device(engine);
      const std::string implementation = device->make_kernel(c.spec)->implementation();
      SCOPED_TRACE(text_of_case(c, implementation));
      ASSERT_EQ(implementation, "tiles:avx512_core_amx_bf16");
      const CaseData data = data_of(c);
      spoil(*engine);
      results.push_back(run_case(*device, c, data));
      expect_of_rounded_operands(c, results.back(), data);
    }
    EXPECT_EQ(results[0].output, results[1].output) << "by threads";
    EXPECT_EQ(results[0].input_errors, results[1].input_errors) << "by threads";
    EXPECT_EQ(results[0].gradients, results[1].gradients) << "by threads";
  }
}

TEST(CpuHalves, FewSamplesFillNoTile) {
  if (!cpu::has_tiles()) GTEST_SKIP() << "needs a processor with AMX";
  const auto device = cpu::make_device(half_engine(1));
  OperationCase c = convolution_of({32, 8, 8}, {.out_channels = 32, .kernel_h = 3, .kernel_w = 3});
  c.spec.micro_batch = 3;
  EXPECT_FALSE(computes_in_bf16(device->make_kernel(c.spec)->implementation()));
}

// Recurrent layers of one sample round the weights of their steps, and those alone: on their way forward and back they are those of rounded
// weights, and so are the gradients.
TEST(CpuHalves, RecurrentLayersAreThoseOfRoundedWeights) {
  if (!cpu_has_bf16()) GTEST_SKIP() << "needs a processor with AVX-512 BF16";
  constexpr double kBound = 1e-5;
  const auto oracle = make_reference_device(ElementType::kFloat64);
  CaseLimits limits;
  limits.seed = 11;
  limits.per_kind = 40;
  limits.most_channels = 40;
  int64_t seen = 0;
  for (const OperationCase& c : operation_cases(limits)) {
    const auto* cell = std::get_if<Recurrent>(&c.spec.operation);
    if (cell == nullptr) continue;
    SCOPED_TRACE(c.name);
    const auto device = cpu::make_device(half_engine(1 + static_cast<int>(seen % 2)));
    EXPECT_EQ(computes_in_bf16(device->make_kernel(c.spec)->implementation()), c.spec.micro_batch == 1);
    if (c.spec.micro_batch > 1) continue;
    ++seen;
    const CaseData data = data_of(c);
    CaseData half = data;
    const RecurrentShape shape(c.spec, *cell);
    for (int64_t d = 0; d < shape.directions; ++d) {
      half.parameters[shape.hidden_weight(d)] = rounded(half.parameters[shape.hidden_weight(d)]);
      if (shape.projects) half.parameters[shape.projection(d)] = rounded(half.parameters[shape.projection(d)]);
    }
    const CaseResult mine = run_case(*device, c, data), expected = run_case(*oracle, c, half);
    EXPECT_LT(normwise_difference(mine.output, expected.output), kBound);
    EXPECT_LT(normwise_difference(mine.input_errors[0], expected.input_errors[0]), kBound);
    for (size_t i = 0; i < expected.gradients.size(); ++i)
      EXPECT_LT(normwise_difference(mine.gradients[i], expected.gradients[i]), kBound) << "gradient " << i;
  }
  EXPECT_GE(seen, 8);
}

TEST(CpuHalves, ChannelsThatFillNoBlockStayInFp32) {
  const auto device = cpu::make_device(half_engine(1));
  for (const Shape& input : {Shape{17, 9, 28}, Shape{3, 32, 32}, Shape{32, 40, 1}})
    EXPECT_FALSE(computes_in_bf16(
        device->make_kernel(convolution_of(input, {.out_channels = 32, .kernel_h = 1, .kernel_w = 1}).spec)->implementation()))
        << text_of(input);
}

TEST(CpuHalves, TheDeviceInFp32KnowsNothingOfThem) {
  const auto device = make_cpu_device();
  const OperationCase c = convolution_of({32, 8, 8}, {.out_channels = 32, .kernel_h = 3, .kernel_w = 3});
  EXPECT_FALSE(computes_in_bf16(device->make_kernel(c.spec)->implementation()));
  EXPECT_EQ(device->description().find("bf16"), std::string::npos);
}

TEST(CpuHalves, ProcessorsWithoutThemRefuse) {
  const CpuOptions options{.precision = CpuPrecision::kBfloat16};
  if (cpu_has_bf16()) {
    EXPECT_NE(make_cpu_device(options)->description().find("with bf16"), std::string::npos);
    return;
  }
  try {
    make_cpu_device(options);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("this processor has no AVX-512 BF16"), std::string::npos);
  }
}

}  // namespace millrace::testing
