#include "fpga/conv_ce/phases/phase_model.h"

#include "core/base/index.h"
#include "core/base/random.h"
#include "core/device/optimizer_math.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"

namespace millrace {

namespace {

// Of all random numbers of updates: a run's numbers depend on its plan and weights, not on who draws first.
constexpr uint64_t kUpdateSeed = 0x4d696c6c72616365;
constexpr uint64_t kElementsPerStep = uint64_t{1} << 40;

template <typename T>
std::span<T> sample_of(std::span<T> all, int64_t sample, size_t elements) {
  return all.subspan(to_size(sample) * elements, elements);
}

}  // namespace

std::vector<int16_t> forward_phase(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters) {
  const ConvolutionShape& shape = phase.convolution;
  const size_t inputs = shape.input_elements(), outputs = shape.output_elements();
  const std::vector<int16_t> ones(data.bias.size(), 1);
  std::vector<int16_t> result;
  result.reserve(phase.output_elements());
  for (int64_t sample = 0; sample < phase.samples; ++sample) {
    std::vector<int32_t> accumulators(outputs);
    if (!data.before.empty()) accumulators = from_partials(sample_of(data.before, sample, outputs), phase.shift, counters.first);
    accumulate_forward(shape, sample_of(data.input, sample, inputs), data.weight, accumulators, counters.first);
    std::vector<int16_t> sums = to_elements(accumulators, phase.shift, counters.first);
    if (!data.bias.empty()) sums = scaled_and_offset(sums, shape.outputs, {.scale = ones, .offset = data.bias}, counters.second);
    result.insert(result.end(), sums.begin(), sums.end());
  }
  return result;
}

std::vector<int16_t> error_back_phase(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                      ArithmeticCounters& counters) {
  const ConvolutionShape& shape = phase.convolution;
  std::vector<int16_t> result;
  result.reserve(phase.input_elements());
  for (int64_t sample = 0; sample < phase.samples; ++sample) {
    std::vector<int32_t> accumulators(shape.input_elements());
    accumulate_error_back(shape, sample_of(output_error, sample, shape.output_elements()), weight, accumulators, counters);
    const std::vector<int16_t> rounded = to_elements(accumulators, phase.shift, counters);
    result.insert(result.end(), rounded.begin(), rounded.end());
  }
  return result;
}

void gradient_phase(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters) {
  const ConvolutionShape& shape = phase.convolution;
  for (int64_t sample = 0; sample < phase.samples; ++sample)
    accumulate_gradient(shape, sample_of(input, sample, shape.input_elements()), sample_of(output_error, sample, shape.output_elements()),
                        weight, counters);
  if (bias.empty()) return;
  for (int64_t sample = 0; sample < phase.samples; ++sample)
    accumulate_bias_gradient(shape, sample_of(output_error, sample, shape.output_elements()), bias, counters);
}

void update_phase(const UpdateRun& update, std::span<float> weights, std::span<const float> gradients, std::span<float> first_slot,
                  std::span<float> second_slot, ArithmeticCounters& counters) {
  update_elements<float>(update.arguments, weights, gradients, first_slot, second_slot);
  const Philox draw(kUpdateSeed, update.stream);
  const uint64_t first = static_cast<uint64_t>(update.arguments.step) * kElementsPerStep;
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(
        real_value(stochastically_rounded(static_cast<double>(weights[i]), update.format, draw.bits(first + i), counters),
                   update.format.fraction_bits));
}

}  // namespace millrace
