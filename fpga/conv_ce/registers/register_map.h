// How the host tells the kernel on an FPGA which phase to do: the register map that host code, xclbin, emulated device and
// generated hardware share. The emulation's device process reads it with this header; `millrace rtl` fills control_registers.sv,
// kernel.xml, registers.txt and the testbench from it (fpga/conv_ce/generator).
//
//   PhaseRegisters registers = registers_of(PhaseCode::kForward, shape, kBias, /*run=*/7);
//   registers.pointers[kSource] = input_address;
//
// One kernel, millrace_conv_ce, with AXI4-Lite control, identity and window where fpga/common/registers/kernel_registers.h has them;
// kScalars and kPointers name its arguments in order.
// What the pointers mean, by phase; all buffers are little-endian, elements 16 bits, accumulators 32, reals single precision:
//   phase   source        second                parameters          extra            result
//   FP      input         partial sums (kAdds)  weights             biases (kBias)   elements
//   EB      output error  -                     weights             -                elements
//   PG      input         output error          -                   -                accumulators: weights, biases (kBias)
//   WU      UpdateBlock   gradient              weights (written)   -                reals, in and out: weights, slots
//   MB      -             -                     parameters (kLoads) -                accumulators (kStores)
//   RF      a recurrent layer's forward pass: fpga/xrt/protocol/recurrence_block.h
//   SF, SB  a recurrent layer's steps forward and back: fpga/xrt/protocol/steps_block.h
// A device has FP, EB, PG, WU, RF, SF and SB, one layer's phase a run, or MB alone: a whole mini-batch, whose activations and errors
// pass over the device's streams while `samples` of them go forward and back. Hardware that `millrace rtl` generates has MB;
// its shape and formats are built in, so that of the scalars phase, flags, run and samples count. What lies at its pointers, which
// are multiples of kPageBytes, and in which order, is said in the device's README.md.
// A device refuses what it does not have with kBadPhase in the result's header.
// WU reads a gradient of accumulators in the result of a PG, `gradient_offset` bytes from its start, or reals with kRealGradient;
// its `inputs` is the number of weights. PG adds to what is in the result, or starts from zero with kFresh. Every result
// begins with a ResultHeader; PG's counters add up in it, and WU hands on those of the gradient it read.
//
// A change of anything here needs a new kMapVersion: host and device refuse each other's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fpga/common/registers/kernel_registers.h"
#include "fpga/conv_ce/phases/phase_model.h"

namespace millrace::xrt {

inline constexpr std::string_view kKernelName = "millrace_conv_ce";
inline constexpr std::string_view kInstanceName = "millrace_conv_ce_1";

inline constexpr uint32_t kMapVersion = 4;
inline constexpr uint32_t kIdentity = identity_of(kMapVersion);

enum class PhaseCode : uint32_t {
  kForward = 1,
  kErrorBack = 2,
  kGradient = 3,
  kUpdate = 4,
  kMiniBatch = 5,
  kRecurrence = 6,
  kSteps = 7,
  kStepsBack = 8
};

inline constexpr uint32_t kAdds = 1;          // FP: partial sums come in
inline constexpr uint32_t kBias = 2;          // FP: add the biases; PG: their gradient too
inline constexpr uint32_t kFresh = 4;         // PG: start from zero
inline constexpr uint32_t kRealGradient = 8;  // WU: the gradient is reals, not accumulators
inline constexpr uint32_t kLoads = 16;        // MB: parameters come in before it
inline constexpr uint32_t kStores = 32;       // MB: gradients go out behind it

enum Scalar : size_t {
  kPhase,
  kFlags,
  kRun,
  kSamples,
  kShift,
  kInputs,
  kOutputs,
  kHeight,
  kWidth,
  kKernelHeight,
  kKernelWidth,
  kStrideHeight,
  kStrideWidth,
  kPadHeight,
  kPadWidth,
  kDilationHeight,
  kDilationWidth,
  kGroups,
  kScalarCount
};
enum Pointer : size_t { kSource, kSecond, kParameters, kExtra, kResult, kPointerCount };

inline constexpr std::array<std::string_view, kScalarCount> kScalars = {
    "phase",        "flags",      "run",       "samples",         "shift",          "inputs",
    "outputs",      "height",     "width",     "kernel_height",   "kernel_width",   "stride_height",
    "stride_width", "pad_height", "pad_width", "dilation_height", "dilation_width", "groups"};
inline constexpr std::array<std::string_view, kPointerCount> kPointers = {"source", "second", "parameters", "extra", "result"};

constexpr uint32_t pointer_offset(size_t index) { return pointer_offset(kScalarCount, index); }
inline constexpr uint32_t kArgumentsEnd = pointer_offset(kPointerCount);
static_assert(kArgumentsEnd <= kIdentityRegister);

// The kernel's arguments in the order of their numbers.
std::vector<KernelArgument> kernel_arguments();

struct PhaseRegisters {
  std::array<uint32_t, kScalarCount> scalars{};
  std::array<uint64_t, kPointerCount> pointers{};  // addresses, or whatever stands for them before they are known
};

PhaseRegisters registers_of(PhaseCode phase, const PhaseShape& shape, uint32_t flags, uint32_t run);
PhaseRegisters registers_of_mini_batch(int64_t samples, uint32_t flags, uint32_t run);
// The shape of a phase; fails with kMalformed, naming the register, on what no convolution has.
PhaseShape shape_of(const PhaseRegisters& registers);
// From the register file, which holds at least kArgumentsEnd bytes.
PhaseRegisters registers_from(std::span<const uint8_t> file);

// What a host writes to start a run.
std::vector<RegisterWrite> writes_of(const PhaseRegisters& registers);

std::string_view name_of(RunStatus status);
// Fails with kUnavailable, naming device and phase, on anything but the result of run number `run`, done.
void check_result(const ResultHeader& header, uint32_t run, std::string_view phase, std::string_view device);

// The settings of WU.
struct UpdateBlock {
  uint32_t optimizer = 0;  // OptimizerKind
  uint32_t decays = 1;
  uint32_t clips = 0;  // to value_limit
  int32_t format_bits = 0;
  int32_t gradient_bits = 0;
  uint32_t gradient_offset = 0;
  uint64_t stream = 0;
  int64_t step = 1;
  double learning_rate = 0, gradient_scale = 1, value_limit = 0;
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};
static_assert(sizeof(UpdateBlock) == 104);

UpdateBlock block_of(const UpdateRun& update, int gradient_bits, size_t gradient_offset);
UpdateRun update_of(const UpdateBlock& block);  // fails with kMalformed on an optimizer that does not exist

}  // namespace millrace::xrt
