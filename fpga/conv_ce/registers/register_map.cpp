#include "fpga/conv_ce/registers/register_map.h"

#include <cstring>
#include <initializer_list>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace::xrt {

namespace {

// No plane, kernel or batch comes near.
constexpr uint32_t kMostExtent = 1 << 20;
constexpr int64_t kMostElements = int64_t{1} << 36;

void check_product(std::string_view what, std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product) || product > kMostElements)
      fail(ErrorCode::kMalformed, "the registers describe a tensor of {} with more than {} elements", what, kMostElements);
}

}  // namespace

PhaseRegisters registers_of(PhaseCode phase, const PhaseShape& shape, uint32_t flags, uint32_t run) {
  PhaseRegisters registers;
  const auto set = [&registers](Scalar scalar, int64_t value) { registers.scalars[scalar] = static_cast<uint32_t>(value); };
  const ConvolutionShape& convolution = shape.convolution;
  set(kPhase, static_cast<int64_t>(phase));
  set(kFlags, flags);
  set(kRun, run);
  set(kSamples, shape.samples);
  set(kShift, shape.shift);
  set(kInputs, convolution.inputs);
  set(kOutputs, convolution.outputs);
  set(kHeight, convolution.height);
  set(kWidth, convolution.width);
  set(kKernelHeight, convolution.kernel_h);
  set(kKernelWidth, convolution.kernel_w);
  set(kStrideHeight, convolution.stride_h);
  set(kStrideWidth, convolution.stride_w);
  set(kPadHeight, convolution.pad_h);
  set(kPadWidth, convolution.pad_w);
  set(kDilationHeight, convolution.dilation_h);
  set(kDilationWidth, convolution.dilation_w);
  set(kGroups, convolution.groups);
  return registers;
}

PhaseShape shape_of(const PhaseRegisters& registers) {
  const auto get = [&registers](Scalar scalar, uint32_t least) {
    const uint32_t value = registers.scalars[scalar];
    if (value < least || value > kMostExtent)
      fail(ErrorCode::kMalformed, "register {}: {}; it holds {} to {}", kScalars[scalar], value, least, kMostExtent);
    return static_cast<int64_t>(value);
  };
  PhaseShape shape;
  shape.samples = get(kSamples, 1);
  shape.shift = static_cast<int>(get(kShift, 0));
  shape.convolution = {.inputs = get(kInputs, 1),
                       .outputs = get(kOutputs, 1),
                       .height = get(kHeight, 1),
                       .width = get(kWidth, 1),
                       .kernel_h = get(kKernelHeight, 1),
                       .kernel_w = get(kKernelWidth, 1),
                       .stride_h = get(kStrideHeight, 1),
                       .stride_w = get(kStrideWidth, 1),
                       .pad_h = get(kPadHeight, 0),
                       .pad_w = get(kPadWidth, 0),
                       .dilation_h = get(kDilationHeight, 1),
                       .dilation_w = get(kDilationWidth, 1),
                       .groups = get(kGroups, 1)};
  const ConvolutionShape& convolution = shape.convolution;
  if (shape.shift > 31) fail(ErrorCode::kMalformed, "register shift: {}; accumulators have 32 bits", shape.shift);
  if (convolution.inputs % convolution.groups != 0 || convolution.outputs % convolution.groups != 0)
    fail(ErrorCode::kMalformed, "register groups: {} do not divide {} inputs and {} outputs", convolution.groups, convolution.inputs,
         convolution.outputs);
  if (convolution.height + 2 * convolution.pad_h < convolution.dilation_h * (convolution.kernel_h - 1) + 1 ||
      convolution.width + 2 * convolution.pad_w < convolution.dilation_w * (convolution.kernel_w - 1) + 1)
    fail(ErrorCode::kMalformed, "registers kernel_height, kernel_width: {} x {} do not fit the padded plane", convolution.kernel_h,
         convolution.kernel_w);
  check_product("inputs", {shape.samples, convolution.inputs, convolution.height, convolution.width});
  check_product("outputs", {shape.samples, convolution.outputs, convolution.out_height(), convolution.out_width()});
  check_product("weights", {convolution.outputs, convolution.inputs, convolution.kernel_h, convolution.kernel_w});
  return shape;
}

PhaseRegisters registers_of_mini_batch(int64_t samples, uint32_t flags, uint32_t run) {
  MILLRACE_CHECK(samples > 0 && samples <= kMostExtent, "a mini-batch of {} samples", samples);
  PhaseRegisters registers;
  registers.scalars[kPhase] = static_cast<uint32_t>(PhaseCode::kMiniBatch);
  registers.scalars[kFlags] = flags;
  registers.scalars[kRun] = run;
  registers.scalars[kSamples] = static_cast<uint32_t>(samples);
  return registers;
}

std::vector<KernelArgument> kernel_arguments() {
  std::vector<KernelArgument> arguments;
  for (size_t i = 0; i < kScalarCount; ++i) arguments.push_back({.name = kScalars[i], .offset = scalar_offset(i)});
  for (size_t i = 0; i < kPointerCount; ++i)
    arguments.push_back({.name = kPointers[i], .bytes = 8, .offset = pointer_offset(i), .pointer = true});
  return arguments;
}

std::vector<RegisterWrite> writes_of(const PhaseRegisters& registers) {
  std::vector<RegisterWrite> writes;
  for (size_t i = 0; i < kScalarCount; ++i) writes.push_back({scalar_offset(i), registers.scalars[i]});
  for (size_t i = 0; i < kPointerCount; ++i) {
    writes.push_back({pointer_offset(i), static_cast<uint32_t>(registers.pointers[i])});
    writes.push_back({pointer_offset(i) + 4, static_cast<uint32_t>(registers.pointers[i] >> 32)});
  }
  writes.push_back({kControl, kStartBit});
  return writes;
}

PhaseRegisters registers_from(std::span<const uint8_t> file) {
  MILLRACE_CHECK(file.size() >= kArgumentsEnd, "a register file of {} bytes", file.size());
  PhaseRegisters registers;
  for (size_t i = 0; i < kScalarCount; ++i) std::memcpy(&registers.scalars[i], file.data() + scalar_offset(i), sizeof(uint32_t));
  for (size_t i = 0; i < kPointerCount; ++i) std::memcpy(&registers.pointers[i], file.data() + pointer_offset(i), sizeof(uint64_t));
  return registers;
}

std::string_view name_of(RunStatus status) {
  switch (status) {
    case kDone: return "done";
    case kBadPhase: return "a phase that the device does not have";
    case kBadShape: return "a shape that no layer has";
    case kBadAddress: return "an address outside of the device's buffers";
    case kBadGradient: return "a gradient whose phase did not succeed";
  }
  return "a status that the register map does not have";
}

void check_result(const ResultHeader& header, uint32_t run, std::string_view phase, std::string_view device) {
  if (header.mark != kIdentity || header.run != run)
    fail(ErrorCode::kUnavailable, "{}: the device left no result of run {} of {} (mark {:#x}, run {})", device, run, phase, header.mark,
         header.run);
  if (header.status != kDone)
    fail(ErrorCode::kUnavailable, "{}: {} refused: {}", device, phase, name_of(static_cast<RunStatus>(header.status)));
}

UpdateBlock block_of(const UpdateRun& update, int gradient_bits, size_t gradient_offset) {
  const UpdateArguments& arguments = update.arguments;
  return {.optimizer = static_cast<uint32_t>(arguments.optimizer.kind),
          .decays = arguments.decay ? 1u : 0u,
          .clips = arguments.value_limit ? 1u : 0u,
          .format_bits = update.format.fraction_bits,
          .gradient_bits = gradient_bits,
          .gradient_offset = static_cast<uint32_t>(gradient_offset),
          .stream = update.stream,
          .step = arguments.step,
          .learning_rate = arguments.learning_rate,
          .gradient_scale = arguments.gradient_scale,
          .value_limit = arguments.value_limit.value_or(0),
          .momentum = arguments.optimizer.momentum,
          .beta1 = arguments.optimizer.beta1,
          .beta2 = arguments.optimizer.beta2,
          .epsilon = arguments.optimizer.epsilon,
          .weight_decay = arguments.optimizer.weight_decay};
}

UpdateRun update_of(const UpdateBlock& block) {
  if (block.optimizer > static_cast<uint32_t>(OptimizerKind::kAdamW))
    fail(ErrorCode::kMalformed, "the update's optimizer is number {}, which does not exist", block.optimizer);
  if (block.format_bits < 0 || block.format_bits > kMostFractionBits)
    fail(ErrorCode::kMalformed, "the update's weights have {} fraction bits; there are 0 to {}", block.format_bits, kMostFractionBits);
  UpdateRun update;
  update.arguments.optimizer = {.kind = static_cast<OptimizerKind>(block.optimizer),
                                .momentum = block.momentum,
                                .beta1 = block.beta1,
                                .beta2 = block.beta2,
                                .epsilon = block.epsilon,
                                .weight_decay = block.weight_decay};
  update.arguments.learning_rate = block.learning_rate;
  update.arguments.gradient_scale = block.gradient_scale;
  if (block.clips != 0) update.arguments.value_limit = block.value_limit;
  update.arguments.step = block.step;
  update.arguments.decay = block.decays != 0;
  update.format = {block.format_bits};
  update.stream = block.stream;
  return update;
}

}  // namespace millrace::xrt
