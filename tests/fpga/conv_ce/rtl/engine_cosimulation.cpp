// Compares the RTL of one parameter set with the functional model, bit by bit, over random geometries and pauses.
//
//   cosimulation_k3s1 --geometries 25 --seed 7
//   cosimulation_k5s1 --geometries 25 --dilation 2      kernels of 3 x 3 with zeros between, against the functional model's own dilation
//   cosimulation_k3s1 --cycles 20       cycles of the RTL against the cycle model, at full speed
//   cosimulation_k3s1 --table           MACs per cycle over shapes of layers
//   streamed_k3s1_64 --geometries 25    kernels and gradients in a memory outside, of random latency up to 100 cycles and random pauses
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
#include "tests/fpga/conv_ce/rtl/flags.h"
#include MILLRACE_FORWARD_HEADER
#include MILLRACE_ERROR_BACK_HEADER
#include MILLRACE_GRADIENT_HEADER
#ifdef MILLRACE_BEAT_BITS
#include "tests/fpga/conv_ce/rtl/streamed_bench.h"
#include MILLRACE_KERNELS_HEADER
#include MILLRACE_GRADIENTS_HEADER
#endif

namespace millrace {
namespace {

constexpr EngineParallelism kEngine{MILLRACE_KERNEL,       MILLRACE_STRIDE,           MILLRACE_INPUT_LANES,
                                    MILLRACE_OUTPUT_LANES, MILLRACE_KERNELS_PER_WORD, MILLRACE_CHANNEL_GROUPS};
// Products with padding count: the engine does them.
const auto kPeakMacs = static_cast<double>(kEngine.tiles() * kEngine.taps());
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
  shape.groups = kEngine.channel_groups;
  if (shape.groups > 1) {  // lanes divide the channels of each
    shape.inputs = shape.groups * kEngine.input_lanes * drawn(random, 1, 3);
    shape.outputs = shape.groups * kEngine.output_lanes * drawn(random, 1, 3);
  }
  return shape;
}

// Of a kernel as the engine has it, the elements that a dilated one has; there is nothing between them.
template <typename T>
std::vector<T> dilated_elements(const std::vector<T>& all, int64_t dilation) {
  std::vector<T> some;
  for (size_t i = 0; i < all.size(); ++i) {
    const auto tap = static_cast<int64_t>(i) % (kEngine.kernel * kEngine.kernel);
    if (tap / kEngine.kernel % dilation == 0 && tap % kEngine.kernel % dilation == 0) some.push_back(all[i]);
  }
  return some;
}

// As the functional model has it, whose kernel is the smaller one.
ConvolutionShape dilated_shape(ConvolutionShape shape, int64_t dilation) {
  shape.kernel_h = shape.kernel_w = (kEngine.kernel - 1) / dilation + 1;
  shape.dilation_h = shape.dilation_w = dilation;
  return shape;
}

EngineJob drawn_job(std::mt19937_64& random, int64_t dilation) {
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
  for (size_t i = 0; i < job.weight.size(); ++i) {
    const auto tap = static_cast<int64_t>(i) % (kEngine.kernel * kEngine.kernel);
    if (tap / kEngine.kernel % dilation != 0 || tap % kEngine.kernel % dilation != 0) job.weight[i] = 0;
  }
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

// What lies outside, where the program has streamers.
struct Outside {
  KernelSource* forward = nullptr;
  KernelSource* error_back = nullptr;
  GradientStore* gradient = nullptr;
};

struct Benches {
  ForwardBench<MILLRACE_FORWARD_MODEL> forward{kEngine};
  ErrorBackBench<MILLRACE_ERROR_BACK_MODEL> error_back{kEngine};
  GradientBench<MILLRACE_GRADIENT_MODEL> gradient{kEngine};
};

bool compare(const EngineJob& job, Benches& benches, std::mt19937_64& random, int64_t dilation, const Outside& outside = {}) {
  ArithmeticCounters counters;
  const ConvolutionShape shape = dilated_shape(job.shape, dilation);
  const std::vector<int16_t> weight = dilated_elements(job.weight, dilation);
  const auto ended = [&job](const char* what, const BenchResult& result) {
    if (!result.finished) fmt::print("{} does not end within {} cycles\n  {}\n", what, result.cycles, text_of(job));
    return result.finished;
  };

  const BenchResult forward = benches.forward.run(job, random, outside.forward);
  if (!ended("FP", forward)) return false;
  for (size_t sample = 0; sample < forward.maps.size(); ++sample) {
    std::vector<int32_t> sums(shape.output_elements());
    if (!job.partials.empty()) sums = from_partials(job.partials[sample], job.partial_shift, counters);
    accumulate_forward(shape, job.inputs[sample], weight, sums, counters);
    if (!same("FP", job, to_elements(sums, job.sum_shift, counters), forward.maps[sample])) return false;
  }

  const BenchResult error_back = benches.error_back.run(job, random, outside.error_back);
  if (!ended("EB", error_back)) return false;
  for (size_t sample = 0; sample < error_back.maps.size(); ++sample) {
    std::vector<int32_t> sums(shape.input_elements());
    accumulate_error_back(shape, job.output_errors[sample], weight, sums, counters);
    if (!same("EB", job, to_elements(sums, job.sum_shift, counters), error_back.maps[sample])) return false;
  }

  const BenchResult gradient = benches.gradient.run(job, random, outside.gradient);
  if (!ended("PG", gradient)) return false;
  std::vector<int32_t> sums(shape.weight_elements());
  std::vector<int32_t> bias_sums(static_cast<size_t>(shape.outputs));
  for (size_t sample = 0; sample < job.inputs.size(); ++sample) {
    accumulate_gradient(shape, job.inputs[sample], job.output_errors[sample], sums, counters);
    accumulate_bias_gradient(shape, job.output_errors[sample], bias_sums, counters);
  }
  return same("PG", job, sums, dilated_elements(gradient.gradient, dilation)) && same("PG's bias", job, bias_sums, gradient.bias_gradient);
}

#ifdef MILLRACE_BEAT_BITS
int compare_streamed(int64_t geometries, uint64_t seed, int64_t dilation) {
  std::mt19937_64 random(seed);
  Benches benches;
  StreamedKernels<MILLRACE_KERNELS_MODEL> forward(MILLRACE_BEAT_BITS, random), error_back(MILLRACE_BEAT_BITS, random);
  StreamedGradients<MILLRACE_GRADIENTS_MODEL> gradient(MILLRACE_BEAT_BITS, random);
  int64_t beats = 0, most_outstanding = 0;
  for (int64_t geometry = 0; geometry < geometries; ++geometry) {
    const EngineJob job = drawn_job(random, dilation);
    const double pauses[] = {0, 0.3, 0.8};
    const OutsideTiming timing{.latency = drawn(random, 0, 2) == 0 ? drawn(random, 0, 20) : 100, .pause = pauses[random() % 3]};
    forward.timing = error_back.timing = gradient.timing = timing;
    if (!compare(job, benches, random, dilation, {&forward, &error_back, &gradient})) return 1;
    // Every pass moves each word once, and nothing else.
    const int64_t kernels = streamed_beats(kEngine, job.shape, 16, MILLRACE_BEAT_BITS);
    const int64_t gradients = streamed_beats(kEngine, job.shape, 32, MILLRACE_BEAT_BITS) * forward_passes(job.shape) * job.samples;
    const bool counted = forward.memory().beats_read() == kernels * forward_passes(job.shape) * job.samples &&
                         error_back.memory().beats_read() == kernels * error_back_passes(job.shape) * job.samples &&
                         gradient.memory().beats_read() == gradients && gradient.memory().beats_written() == gradients;
    if (!counted || forward.fault() || error_back.fault() || gradient.fault()) {
      fmt::print("beats outside: FP {}, EB {}, PG {} read and {} written, of {} per pass and {} in all; faults {} {} {}\n  {}\n",
                 forward.memory().beats_read(), error_back.memory().beats_read(), gradient.memory().beats_read(),
                 gradient.memory().beats_written(), kernels, gradients, forward.fault(), error_back.fault(), gradient.fault(),
                 text_of(job));
      return 1;
    }
    for (const OutsideMemory* memory : {&forward.memory(), &error_back.memory(), &gradient.memory()}) {
      beats += memory->beats_read() + memory->beats_written();
      most_outstanding = std::max(most_outstanding, memory->most_outstanding());
    }
  }
  fmt::print(
      "kernel {} stride {} lanes {}x{}, beats of {}: {} geometries, FP, EB and PG bit by bit as the functional model; {} beats, up to "
      "{} bursts on their way\n",
      kEngine.kernel, kEngine.stride, kEngine.input_lanes, kEngine.output_lanes, MILLRACE_BEAT_BITS, geometries, beats, most_outstanding);
  return 0;
}
#else
int compare_many(int64_t geometries, uint64_t seed, int64_t dilation) {
  std::mt19937_64 random(seed);
  Benches benches;
  for (int64_t geometry = 0; geometry < geometries; ++geometry)
    if (!compare(drawn_job(random, dilation), benches, random, dilation)) return 1;
  const std::string spread = dilation == 1 ? "" : fmt::format(" dilation {}", dilation);
  fmt::print("kernel {} stride {}{} lanes {}x{}: {} geometries, FP, EB and PG bit by bit as the functional model\n",
             (kEngine.kernel - 1) / dilation + 1, kEngine.stride, spread, kEngine.input_lanes, kEngine.output_lanes, geometries);
  return 0;
}
#endif

// Whether computing a row and bringing it in take about equally long. What a sample's edges save then shifts from row to
// row, and only whole samples have a steady time.
bool evenly_matched(const ConvolutionShape& shape) {
  const auto computing = static_cast<double>(kEngine.groups_of_outputs(shape.outputs) / kEngine.channel_groups *
                                             std::max(shape.out_width(), kEngine.load_words() + 1));
  const auto bringing = static_cast<double>(shape.width * kEngine.stride);
  return std::fabs(computing - bringing) < 0.15 * bringing;
}

// A geometry of some size, at full speed.
EngineJob drawn_steady_job(std::mt19937_64& random) {
  EngineJob job;
  do {
    job.shape = drawn_shape(random);
    job.shape.height = drawn(random, 8 * kEngine.stride + kEngine.kernel, 8 * kEngine.stride + kEngine.kernel + 16);
    job.shape.width = drawn(random, 3 * kEngine.stride + kEngine.kernel, 3 * kEngine.stride + kEngine.kernel + 20);
  } while (!fits(job.shape, 1) || evenly_matched(job.shape));
  job.samples = 3;
  for (int64_t sample = 0; sample < job.samples; ++sample) {
    job.inputs.push_back(random_elements(random, job.shape.input_elements(), 9));
    job.output_errors.push_back(random_elements(random, job.shape.output_elements(), 9));
  }
  job.weight = random_elements(random, job.shape.weight_elements(), 9);
  job.sum_shift = 6;
  job.most_cycles = 400'000;
  return job;
}

struct CycleTotals {
  int64_t rows = 0;
  int64_t rows_exact = 0;
  double worst = 0;  // of whole runs, relative
};

// `ends`: when each row's last result came, over all samples; late in the middle sample lies the steady state.
bool cycles_agree(const char* phase, const EngineJob& job, const BenchResult& result, const std::vector<int64_t>& ends, int64_t row_cycles,
                  int64_t all_cycles, CycleTotals& totals) {
  if (!result.finished) {
    fmt::print("{} does not end within {} cycles\n  {}\n", phase, result.cycles, text_of(job));
    return false;
  }
  const double deviation = std::fabs(static_cast<double>(result.cycles - all_cycles)) / static_cast<double>(result.cycles);
  totals.worst = std::max(totals.worst, deviation);
  const size_t per_sample = ends.size() / 3;
  const size_t row = per_sample + per_sample * 3 / 4;
  const int64_t steady = ends[row] - ends[row - 1];
  ++totals.rows;
  totals.rows_exact += steady == row_cycles;
  if (steady == row_cycles && deviation <= 0.02) return true;
  fmt::print("{}: a row takes {} cycles, modelled {}; all {}, modelled {} ({:.1f}%)\n  {}\n", phase, steady, row_cycles, result.cycles,
             all_cycles, 100 * deviation, text_of(job));
  return false;
}

int compare_cycles(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  Benches benches;
  CycleTotals totals;
  bool good = true;
  for (int64_t geometry = 0; geometry < geometries; ++geometry) {
    const EngineJob job = drawn_steady_job(random);
    const ConvolutionShape& s = job.shape;
    const auto every = [](const std::vector<int64_t>& cycles, int64_t beats) {
      std::vector<int64_t> ends;
      for (size_t i = static_cast<size_t>(beats) - 1; i < cycles.size(); i += static_cast<size_t>(beats)) ends.push_back(cycles[i]);
      return ends;
    };
    const BenchResult forward = benches.forward.run(job, random);
    good &= cycles_agree("FP", job, forward, every(forward.beat_cycles, kEngine.groups_of_outputs(s.outputs) * s.out_width()),
                         forward_row_cycles(kEngine, s), forward_cycles(kEngine, s, job.samples), totals);
    const BenchResult gradient = benches.gradient.run(job, random);
    good &= cycles_agree("PG", job, gradient, gradient.beat_cycles, gradient_row_cycles(kEngine, s),
                         gradient_cycles(kEngine, s, job.samples), totals);
    const BenchResult error_back = benches.error_back.run(job, random);
    // Rows of steps, by the last of their input rows.
    std::vector<int64_t> ends;
    const ErrorBackSteps steps = error_back_steps(s);
    const int64_t beats = kEngine.groups_of_inputs(s.inputs) * s.width;
    for (int64_t sample = 0; sample < job.samples; ++sample)
      for (int64_t row = steps.first_block_rows; row <= s.height;
           row = row == s.height ? row + 1 : std::min(row + kEngine.stride, s.height))
        ends.push_back(error_back.beat_cycles[static_cast<size_t>((sample * s.height + row) * beats - 1)]);
    good &=
        cycles_agree("EB", job, error_back, ends, error_back_row_cycles(kEngine, s), error_back_cycles(kEngine, s, job.samples), totals);
  }
  fmt::print("kernel {} stride {} lanes {}x{}: {} of {} rows exact, whole runs within {:.2f}%\n", kEngine.kernel, kEngine.stride,
             kEngine.input_lanes, kEngine.output_lanes, totals.rows_exact, totals.rows, 100 * totals.worst);
  return good ? 0 : 1;
}

// Multiply-accumulates per cycle of FP in the steady state, measured on the RTL, over shapes of layers.
int print_table(uint64_t seed) {
  std::mt19937_64 random(seed);
  Benches benches;
  fmt::print("kernel {} stride {}, {} tiles: at most {} MACs per cycle (measured on the RTL, FP in the steady state)\n", kEngine.kernel,
             kEngine.stride, kEngine.tiles(), kPeakMacs);
  fmt::print("{:>24} {:>12} {:>12} {:>8}\n", "layer", "row, cycles", "MACs/cycle", "of peak");
  double least = 1;
  for (const int64_t width : {7, 13, 14, 16, 27, 28, 32, 56})
    for (const int64_t channels : {2 * kEngine.input_lanes, 4 * kEngine.input_lanes, 4 * kEngine.input_lanes + 1}) {
      EngineJob job;
      job.shape = {.inputs = channels,
                   .outputs = 4 * kEngine.output_lanes,
                   .height = 12 * kEngine.stride,
                   .width = width * kEngine.stride,
                   .kernel_h = kEngine.kernel,
                   .kernel_w = kEngine.kernel,
                   .stride_h = kEngine.stride,
                   .stride_w = kEngine.stride,
                   .pad_h = kEngine.kernel / 2,
                   .pad_w = kEngine.kernel / 2};
      if (!fits(job.shape, 1)) continue;
      job.samples = 3;
      for (int64_t sample = 0; sample < job.samples; ++sample) job.inputs.push_back(random_elements(random, job.shape.input_elements(), 9));
      job.weight = random_elements(random, job.shape.weight_elements(), 9);
      job.most_cycles = 4'000'000;
      const BenchResult result = benches.forward.run(job, random);
      const auto beats = static_cast<size_t>(kEngine.groups_of_outputs(job.shape.outputs) * job.shape.out_width());
      const size_t row = static_cast<size_t>(job.shape.out_height()) * 7 / 4;
      const int64_t cycles = result.beat_cycles[(row + 1) * beats - 1] - result.beat_cycles[row * beats - 1];
      const double macs =
          static_cast<double>(channels * job.shape.outputs * kEngine.taps() * job.shape.out_width()) / static_cast<double>(cycles);
      const double share = macs / kPeakMacs;
      if (channels % kEngine.input_lanes == 0) least = std::min(least, share);
      fmt::print("{:>24} {:>12} {:>12.1f} {:>7.1f}%\n",
                 fmt::format("{} -> {}, {} wide", channels, job.shape.outputs, job.shape.out_width()), cycles, macs, 100 * share);
    }
  fmt::print("least share where channels divide: {:.1f}%\n", 100 * least);
  return least >= 0.95 ? 0 : 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--table") == 0) return millrace::print_table(millrace::Flags().seed);
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  if (flags.dilation < 1 || (MILLRACE_KERNEL - 1) % flags.dilation != 0) {
    fmt::print(stderr, "--dilation {}: a kernel of {} has no element there\n", flags.dilation, MILLRACE_KERNEL);
    return 2;
  }
  if (flags.cycles > 0) return millrace::compare_cycles(flags.cycles, flags.seed);
#ifdef MILLRACE_BEAT_BITS
  return millrace::compare_streamed(flags.geometries, flags.seed, flags.dilation);
#else
  return millrace::compare_many(flags.geometries, flags.seed, flags.dilation);
#endif
}
