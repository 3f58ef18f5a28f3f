#include "fpga/conv_ce/arithmetic/fixed_convolution.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/arithmetic/convolution_sums.h"

namespace millrace {

namespace {

template <typename Number>
int64_t largest_size(std::span<const Number> numbers) {
  int64_t largest = 0;
  for (const Number number : numbers) largest = std::max(largest, std::abs(static_cast<int64_t>(number)));
  return largest;
}

int32_t wrapped_and_counted(int64_t exact, ArithmeticCounters& counters) {
  const int32_t kept = wrapped(exact);
  if (kept != exact) ++counters.accumulator_overflows;
  return kept;
}

// `terms`: the most products that meet in one accumulator. Where they cannot overflow, 32 bits are exact and fast; otherwise
// the exact sums are made, wrapped and counted.
template <typename AddNarrow, typename AddExact>
void accumulate(std::span<const int16_t> a, std::span<const int16_t> b, int64_t terms, std::span<int32_t> accumulators,
                ArithmeticCounters& counters, AddNarrow add_narrow, AddExact add_exact) {
  const int64_t product = largest_size(a) * largest_size(b);
  const int64_t room = std::numeric_limits<int32_t>::max() - largest_size(std::span<const int32_t>(accumulators));
  if (product == 0 || terms <= room / product) return add_narrow(accumulators);
  std::vector<int64_t> exact(accumulators.begin(), accumulators.end());
  add_exact(std::span<int64_t>(exact));
  for (size_t i = 0; i < exact.size(); ++i) accumulators[i] = wrapped_and_counted(exact[i], counters);
}

}  // namespace

void accumulate_forward(const ConvolutionShape& shape, std::span<const int16_t> input, std::span<const int16_t> weight,
                        std::span<int32_t> accumulators, ArithmeticCounters& counters) {
  accumulate(
      input, weight, shape.inputs / shape.groups * shape.kernel_h * shape.kernel_w, accumulators, counters,
      [&](std::span<int32_t> sums) { add_forward<int16_t, int32_t>(shape, input, weight, sums); },
      [&](std::span<int64_t> sums) { add_forward<int16_t, int64_t>(shape, input, weight, sums); });
}

void accumulate_error_back(const ConvolutionShape& shape, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                           std::span<int32_t> accumulators, ArithmeticCounters& counters) {
  accumulate(
      output_error, weight, shape.outputs / shape.groups * shape.kernel_h * shape.kernel_w, accumulators, counters,
      [&](std::span<int32_t> sums) { add_error_back<int16_t, int32_t>(shape, output_error, weight, sums); },
      [&](std::span<int64_t> sums) { add_error_back<int16_t, int64_t>(shape, output_error, weight, sums); });
}

void accumulate_gradient(const ConvolutionShape& shape, std::span<const int16_t> input, std::span<const int16_t> output_error,
                         std::span<int32_t> accumulators, ArithmeticCounters& counters) {
  accumulate(
      input, output_error, shape.out_height() * shape.out_width(), accumulators, counters,
      [&](std::span<int32_t> sums) { add_gradient<int16_t, int32_t>(shape, input, output_error, sums); },
      [&](std::span<int64_t> sums) { add_gradient<int16_t, int64_t>(shape, input, output_error, sums); });
}

void accumulate_bias_gradient(const ConvolutionShape& shape, std::span<const int16_t> output_error, std::span<int32_t> accumulators,
                              ArithmeticCounters& counters) {
  const auto plane = to_size(shape.out_height() * shape.out_width());
  MILLRACE_CHECK(output_error.size() == accumulators.size() * plane, "{} errors for {} channels of {}", output_error.size(),
                 accumulators.size(), plane);
  for (size_t channel = 0; channel < accumulators.size(); ++channel) {
    int64_t sum = accumulators[channel];
    for (const int16_t error : output_error.subspan(channel * plane, plane)) sum += error;
    accumulators[channel] = wrapped_and_counted(sum, counters);
  }
}

std::vector<int32_t> from_partials(std::span<const int16_t> partials, int shift, ArithmeticCounters& counters) {
  MILLRACE_CHECK(0 <= shift && shift < kAccumulatorBits, "partial sums raised by {} bits", shift);
  std::vector<int32_t> accumulators(partials.size());
  for (size_t i = 0; i < partials.size(); ++i) accumulators[i] = wrapped_and_counted(int64_t{partials[i]} << shift, counters);
  return accumulators;
}

std::vector<int16_t> to_elements(std::span<const int32_t> accumulators, int shift, ArithmeticCounters& counters, int bits) {
  MILLRACE_CHECK(0 <= shift && shift < kAccumulatorBits, "accumulators lowered by {} bits", shift);
  MILLRACE_CHECK(1 < bits && bits <= kElementBits, "elements of {} bits", bits);
  std::vector<int16_t> elements(accumulators.size());
  for (size_t i = 0; i < accumulators.size(); ++i) elements[i] = rounded_to_element(accumulators[i], shift, counters, bits);
  return elements;
}

}  // namespace millrace
