// The four phases of a shard as the engine computes them, on plain memory: what every body of an FPGA device must equal.
//
//   const PhaseShape phase{.convolution = shape, .samples = 4, .shift = formats.sum_shift()};
//   const std::vector<int16_t> sums = forward_phase(phase, {.input = x, .weight = w, .bias = b}, counters);
//   gradient_phase(phase, x, error, weight_accumulators, bias_accumulators, counters.first);
//   update_phase(update, weights, gradients, first_slot, second_slot, counters.first);
//
// Pure functions of their arguments: fixed_convolution.h's arithmetic sample by sample, after_sum.h's for the bias, and for
// the update optimizer_math.h's in single precision, rounded stochastically to 16 bits (counters: stream, step, element).
// FP counts sums in the first counters and what the bias makes of them in the second; the other phases count in the first.
// Sizes are checked where the arithmetic checks them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/device/device.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

struct PhaseShape {
  ConvolutionShape convolution;
  int64_t samples = 1;
  int shift = 0;  // from an accumulator to what leaves; of PG unused
  bool operator==(const PhaseShape&) const = default;

  size_t input_elements() const { return convolution.input_elements() * to_size(samples); }
  size_t output_elements() const { return convolution.output_elements() * to_size(samples); }
};

struct ForwardData {
  std::span<const int16_t> input;
  std::span<const int16_t> weight;
  std::span<const int16_t> before = {};  // partial sums of the devices before; empty: none
  std::span<const int16_t> bias = {};    // per output channel; empty: none
};

std::vector<int16_t> forward_phase(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters);
std::vector<int16_t> error_back_phase(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                      ArithmeticCounters& counters);
// Adds to the accumulators; those of the bias may be empty.
void gradient_phase(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters);

struct UpdateRun {
  UpdateArguments arguments;
  FixedFormat format;   // of the weights
  uint64_t stream = 0;  // of their random numbers
};
// Weights come out as values of their format.
void update_phase(const UpdateRun& update, std::span<float> weights, std::span<const float> gradients, std::span<float> first_slot,
                  std::span<float> second_slot, ArithmeticCounters& counters);

// An accumulator of PG as the update takes it.
inline float gradient_value(int32_t accumulator, int fraction_bits) { return static_cast<float>(real_value(accumulator, fraction_bits)); }

}  // namespace millrace
