// Compares the RTL of one parameter set with the functional model, bit by bit, over random geometries and pauses.
//
//   cosimulation_k3s1 --geometries 25 --seed 7
//   cosimulation_k3s1 --cycles          a table: cycles of the RTL against the cycle model
//
// Prints one line of totals; ends with 1 and the first difference otherwise. The parameter set is compiled in.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"
#include MILLRACE_FORWARD_HEADER
#include MILLRACE_ERROR_BACK_HEADER
#include MILLRACE_GRADIENT_HEADER

namespace millrace {
namespace {

constexpr EngineParallelism kEngine{MILLRACE_KERNEL, MILLRACE_STRIDE, MILLRACE_INPUT_LANES, MILLRACE_OUTPUT_LANES,
                                    MILLRACE_KERNELS_PER_WORD};
constexpr int kAddressBits = MILLRACE_ADDRESS_BITS;

// Everything one model has room for, other than rows of banks.
bool fits(const ConvolutionShape& shape, int64_t error_block_rows) {
  const EngineMemories need = engine_memories(kEngine, shape, error_block_rows);
  return std::max({need.line_address, need.error_line_address, need.gradient_error_address, need.parameter_address}) <= kAddressBits &&
         need.column_address <= 6 && need.group_address <= 6;
}

ConvolutionShape drawn_shape(std::mt19937_64& random) {
  ConvolutionShape shape;
  shape.kernel_h = shape.kernel_w = kEngine.kernel;
  shape.stride_h = shape.stride_w = kEngine.stride;
  shape.pad_h = shape.pad_w = drawn(random, 0, kEngine.kernel / 2);
  const int64_t smallest = std::max<int64_t>(1, kEngine.kernel - 2 * shape.pad_h);
  shape.height = drawn(random, smallest, smallest + 11);
  shape.width = drawn(random, smallest, smallest + 17);
  shape.inputs = drawn(random, 1, 3 * kEngine.input_lanes);
  shape.outputs = drawn(random, 1, 3 * kEngine.output_lanes);
  return shape;
}

EngineJob drawn_job(std::mt19937_64& random) {
  EngineJob job;
  do {
    job.shape = drawn_shape(random);
    job.error_block_rows = drawn(random, 1, 2);
  } while (!fits(job.shape, job.error_block_rows));
  job.activation_block_rows = drawn(random, 1, kEngine.stride);  // what the line buffer has room for
  job.samples = drawn(random, 1, 3);
  const int bits = random() % 3 == 0 ? 16 : 9;  // large elements wrap accumulators and saturate
  for (int64_t sample = 0; sample < job.samples; ++sample) {
    job.inputs.push_back(random_elements(random, job.shape.input_elements(), bits));
    job.output_errors.push_back(random_elements(random, job.shape.output_elements(), bits));
  }
  if (random() % 2 == 0)
    for (int64_t sample = 0; sample < job.samples; ++sample)
      job.partials.push_back(random_elements(random, job.shape.output_elements(), 16));
  job.weight = random_elements(random, job.shape.weight_elements(), bits);
  job.partial_shift = static_cast<int>(drawn(random, 0, 16));
  job.sum_shift = static_cast<int>(drawn(random, 0, 20));
  const double pauses[] = {0, 0.3, 0.8};
  job.source_pause = pauses[random() % 3];
  job.sink_pause = pauses[random() % 3];
  job.most_cycles = 2'000'000;
  return job;
}

std::string text_of(const EngineJob& job) {
  const ConvolutionShape& s = job.shape;
  return fmt::format(
      "{} -> {} channels, {} x {}, kernel {}, stride {}, pad {}, {} samples, partials {}, shifts {} {}, blocks {} {}, pauses {} {}",
      s.inputs, s.outputs, s.height, s.width, s.kernel_h, s.stride_h, s.pad_h, job.samples, !job.partials.empty(), job.partial_shift,
      job.sum_shift, job.activation_block_rows, job.error_block_rows, job.source_pause, job.sink_pause);
}

template <typename T>
bool same(const char* what, const EngineJob& job, const std::vector<T>& expected, const std::vector<T>& found) {
  if (expected == found) return true;
  size_t at = 0;
  while (at < std::min(expected.size(), found.size()) && expected[at] == found[at]) ++at;
  fmt::print("{} differs at element {} of {}: expected {}, RTL {}\n  {}\n", what, at, expected.size(),
             at < expected.size() ? static_cast<int64_t>(expected[at]) : 0, at < found.size() ? static_cast<int64_t>(found[at]) : 0,
             text_of(job));
  return false;
}

struct Benches {
  ForwardBench<MILLRACE_FORWARD_MODEL> forward{kEngine};
  ErrorBackBench<MILLRACE_ERROR_BACK_MODEL> error_back{kEngine};
  GradientBench<MILLRACE_GRADIENT_MODEL> gradient{kEngine};
};

bool compare(const EngineJob& job, Benches& benches, std::mt19937_64& random) {
  ArithmeticCounters counters;
  const ConvolutionShape& shape = job.shape;
  const auto ended = [&job](const char* what, const BenchResult& result) {
    if (!result.finished) fmt::print("{} does not end within {} cycles\n  {}\n", what, result.cycles, text_of(job));
    return result.finished;
  };

  const BenchResult forward = benches.forward.run(job, random);
  if (!ended("FP", forward)) return false;
  for (size_t sample = 0; sample < forward.maps.size(); ++sample) {
    std::vector<int32_t> sums(shape.output_elements());
    if (!job.partials.empty()) sums = from_partials(job.partials[sample], job.partial_shift, counters);
    accumulate_forward(shape, job.inputs[sample], job.weight, sums, counters);
    if (!same("FP", job, to_elements(sums, job.sum_shift, counters), forward.maps[sample])) return false;
  }

  const BenchResult error_back = benches.error_back.run(job, random);
  if (!ended("EB", error_back)) return false;
  for (size_t sample = 0; sample < error_back.maps.size(); ++sample) {
    std::vector<int32_t> sums(shape.input_elements());
    accumulate_error_back(shape, job.output_errors[sample], job.weight, sums, counters);
    if (!same("EB", job, to_elements(sums, job.sum_shift, counters), error_back.maps[sample])) return false;
  }

  const BenchResult gradient = benches.gradient.run(job, random);
  if (!ended("PG", gradient)) return false;
  std::vector<int32_t> sums(shape.weight_elements());
  std::vector<int32_t> bias_sums(static_cast<size_t>(shape.outputs));
  for (size_t sample = 0; sample < job.inputs.size(); ++sample) {
    accumulate_gradient(shape, job.inputs[sample], job.output_errors[sample], sums, counters);
    accumulate_bias_gradient(shape, job.output_errors[sample], bias_sums, counters);
  }
  return same("PG", job, sums, gradient.gradient) && same("PG's bias", job, bias_sums, gradient.bias_gradient);
}

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  Benches benches;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!compare(drawn_job(random), benches, random)) return 1;
  fmt::print("kernel {} stride {} lanes {}x{}: {} geometries, FP, EB and PG bit by bit as the functional model\n", kEngine.kernel,
             kEngine.stride, kEngine.input_lanes, kEngine.output_lanes, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  int64_t geometries = 6;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--geometries") == 0) geometries = std::stoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::stoull(argv[i + 1]);
  }
  return millrace::compare_many(geometries, seed);
}
