#include "fpga/conv_ce/rtl/weight_streams.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/rtl/memory_layout.h"

namespace millrace {

namespace {

constexpr int64_t kKernelBits = 16, kGradientBits = 32;

int64_t beats_of(int64_t elements, int64_t element_bits, int64_t beat_bits) { return divided_up(elements * element_bits, beat_bits); }

}  // namespace

ConvolutionShape side_by_side(const ConvolutionShape& shape, int64_t count) {
  ConvolutionShape wide = shape;
  wide.width *= count;
  return wide;
}

int64_t streamed_words(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return static_cast<int64_t>(parameter_elements(engine, shape)) / (engine.kernels_per_word * engine.taps());
}

int64_t streamed_beats(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t element_bits, int64_t beat_bits) {
  return beats_of(static_cast<int64_t>(parameter_elements(engine, shape)), element_bits, beat_bits);
}

int64_t forward_passes(const ConvolutionShape& shape) { return shape.out_height(); }
int64_t error_back_passes(const ConvolutionShape& shape) { return error_back_steps(shape).rows; }

StreamCycles weight_stream_cycles(const WeightStreams& streams, const EngineParallelism& engine, const ConvolutionShape& shape) {
  return weight_stream_cycles(streams, static_cast<int64_t>(parameter_elements(engine, shape)), shape);
}

StreamCycles weight_stream_cycles(const WeightStreams& streams, int64_t elements, const ConvolutionShape& shape) {
  const int64_t kernels = beats_of(elements, kKernelBits, streams.beat_bits);
  const int64_t gradients = beats_of(elements, kGradientBits, streams.beat_bits);
  return {.forward = divided_up(kernels * forward_passes(shape), streams.samples),
          .error_back = divided_up(kernels * error_back_passes(shape), streams.samples),
          .gradient = divided_up((gradients + divided_up(gradients, kBurstBeats)) * forward_passes(shape), streams.gradient_samples)};
}

double bytes_per_sample(const WeightStreams& streams, const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back) {
  return bytes_per_sample(streams, static_cast<int64_t>(parameter_elements(engine, shape)), shape, error_back);
}

double bytes_per_sample(const WeightStreams& streams, int64_t elements, const ConvolutionShape& shape, bool error_back) {
  const auto beat_bytes = static_cast<double>(streams.beat_bits) / 8;
  const auto kernels = static_cast<double>(beats_of(elements, kKernelBits, streams.beat_bits)) * beat_bytes;
  const auto gradients = static_cast<double>(beats_of(elements, kGradientBits, streams.beat_bits)) * beat_bytes;
  const auto passes = static_cast<double>(forward_passes(shape) + (error_back ? error_back_passes(shape) : 0));
  return kernels * passes / static_cast<double>(streams.samples) +
         2 * gradients * static_cast<double>(forward_passes(shape)) / static_cast<double>(streams.gradient_samples);
}

WeightStreams weight_streams(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples, int64_t gradient_samples,
                             int64_t cycles) {
  WeightStreams streams{.samples = samples, .gradient_samples = gradient_samples, .beat_bits = kLeastBeatBits};
  for (; streams.beat_bits < kMostBeatBits; streams.beat_bits *= 2) {
    const StreamCycles taken = weight_stream_cycles(streams, engine, shape);
    if (cycles > 0 && std::max({taken.forward, taken.error_back, taken.gradient}) <= cycles) break;
  }
  return streams;
}

std::vector<int16_t> parameter_words_of_error_back(const EngineParallelism& engine, const ConvolutionShape& shape,
                                                   std::span<const int16_t> words) {
  MILLRACE_CHECK(words.size() == parameter_elements(engine, shape) && shape.groups == 1, "{} elements of {}, in {} channel groups",
                 words.size(), parameter_elements(engine, shape), shape.groups);
  const auto sweep = to_size(engine.load_words() * engine.kernels_per_word * engine.taps());
  const auto inputs = to_size(engine.input_sweeps(shape.inputs)), outputs = to_size(engine.groups_of_outputs(shape.outputs));
  std::vector<int16_t> ordered;
  ordered.reserve(words.size());
  for (size_t input = 0; input < inputs; ++input)
    for (size_t output = 0; output < outputs; ++output) {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>((output * inputs + input) * sweep);
      ordered.insert(ordered.end(), first, first + static_cast<std::ptrdiff_t>(sweep));
    }
  return ordered;
}

}  // namespace millrace
