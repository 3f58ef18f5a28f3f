// The measured half of the cost model.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/convolution_rates.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/cpu/engine.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/matrix_product.h"
#include "core/cpu/threading.h"
#include "core/cpu/trial.h"
#include "core/cpu/vector_math.h"

namespace millrace {

namespace {

constexpr int kRounds = 5;

// The fastest of a few runs; the first one warms up and does not count.
template <typename Work>
double fastest_of(int threads, Work work) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int round = -1; round < kRounds; ++round) {
    const double begin = cpu::read_clock(cpu::clock_for(threads));
    work();
    const double seconds = cpu::read_clock(cpu::clock_for(threads)) - begin;
    if (round >= 0) fastest = std::min(fastest, seconds);
  }
  return fastest;
}

double measure_macs_per_second(int threads) {
  const cpu::ComputeScope scope(threads);
  constexpr int64_t kSize = 1024;
  std::vector<float> a(kSize * kSize, 1.0f), b(kSize * kSize, 0.5f), c(kSize * kSize);
  const double seconds = fastest_of(threads, [&] {
    cpu::multiply_matrices({.data = a.data(), .stride = kSize}, {.data = b.data(), .stride = kSize}, kSize, kSize, kSize, false, c.data(),
                           kSize);
  });
  return static_cast<double>(kSize * kSize * kSize) / seconds / threads;
}

double measure_bytes_per_second(int threads) {
  const cpu::ComputeScope scope(threads);
  constexpr int64_t kElements = int64_t{1} << 25;  // 128 MiB each: beyond any cache
  std::vector<float> from(kElements, 1.0f), to(kElements, 1.0f);
  const double seconds = fastest_of(threads, [&] {
    cpu::parallel_chunks(threads, kElements,
                         [&](int64_t begin, int64_t size) { cpu::add_to(to.data() + begin, from.data() + begin, size); });
  });
  return 3.0 * sizeof(float) * static_cast<double>(kElements) / seconds / threads;
}

// One layer in each phase: multiply-adds per second of one thread.
PhaseEfficiency measure_rates(const KernelSpec& spec, double macs, int threads) {
  cpu::Trial trial(cpu::make_device(threads, KernelTable::shipped()), spec);
  const auto rate = [&](Phase phase) {
    double fastest = std::numeric_limits<double>::infinity();
    for (int round = -1; round < kRounds; ++round) {
      const double seconds = trial.seconds(phase, threads);
      if (round >= 0) fastest = std::min(fastest, seconds);
    }
    return macs / fastest / threads;
  };
  return {rate(Phase::kForward), rate(Phase::kErrorBack), rate(Phase::kParameterGradient)};
}

double fastest_of(const PhaseEfficiency& rates) { return std::max({rates.forward, rates.error_back, rates.parameter_gradient}); }
PhaseEfficiency shares_of(const PhaseEfficiency& rates, double peak) {
  return {rates.forward / peak, rates.error_back / peak, rates.parameter_gradient / peak};
}

}  // namespace

CpuProfile measure_cpu_profile(int threads) {
  if (threads < 1) fail(ErrorCode::kUsage, "{} threads to measure with; give at least one", threads);
  CpuProfile profile;
  profile.threads = threads;
  profile.measured_on = "this machine";
  profile.shapes_of_avx = cpu_instruction_set() == cpu::name_of(cpu::InstructionSet::kAvx512) ? 512 : 2;
  profile.bytes_per_second = measure_bytes_per_second(threads);
  profile.memory_bytes = static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));

  constexpr int64_t kBatch = 8;
  KernelSpec convolution;
  convolution.layer = "profile";
  convolution.operation = Conv2d{.out_channels = 128, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
  convolution.inputs = {{128, 28, 28}};
  convolution.output = {128, 28, 28};
  convolution.micro_batch = kBatch;
  convolution.bias = true;
  const PhaseEfficiency convolution_rates = measure_rates(convolution, kBatch * 128.0 * 128 * 9 * 28 * 28, threads);

  KernelSpec dense;
  dense.layer = "profile";
  dense.operation = Dense{.out_features = 1024};
  dense.inputs = {{1024, 1, 1}};
  dense.output = {1024, 1, 1};
  dense.micro_batch = 64;
  const PhaseEfficiency dense_rates = measure_rates(dense, 64.0 * 1024 * 1024, threads);

  // The peak is the fastest thing seen: a square matrix product is not always that.
  profile.macs_per_second = std::max({measure_macs_per_second(threads), fastest_of(convolution_rates), fastest_of(dense_rates)});
  profile.convolution = shares_of(convolution_rates, profile.macs_per_second);
  profile.dense = shares_of(dense_rates, profile.macs_per_second);
  return profile;
}

void measure_convolutions(CpuProfile& profile, const Graph& graph, int64_t micro_batch, const std::function<bool()>& stops) {
  if (micro_batch < 1) fail(ErrorCode::kUsage, "convolutions measured at micro-batch {}; give at least one", micro_batch);
  for (const Node& node : graph.nodes()) {
    const std::optional<MeasuredConvolution> shape = cpu::shape_of(node, micro_batch);
    if (!shape) continue;
    const auto known = [&](const MeasuredConvolution& other) { return cpu::name_of(other) == cpu::name_of(*shape); };
    if (std::ranges::any_of(profile.convolutions, known)) continue;
    if (stops && stops()) return;
    KernelSpec spec;
    spec.layer = node.layer.name;
    spec.operation = node.layer.operation;
    spec.inputs = {node.input_shapes[0]};
    spec.output = node.output;
    spec.micro_batch = micro_batch;
    spec.bias = std::get<Conv2d>(node.layer.operation).bias;
    spec.activation = Activation{};
    spec.input_error_needed = node.input_error_needed;
    cpu::Trial trial(cpu::make_device(profile.threads, KernelTable::shipped()), spec);
    const double macs = static_cast<double>(micro_batch * shape->in_channels * shape->out_channels * shape->kernel * shape->kernel *
                                            shape->height * shape->width);
    const auto share = [&](Phase phase) {
      double fastest = std::numeric_limits<double>::infinity();
      for (int round = -1; round < kRounds; ++round) {
        const double seconds = trial.seconds(phase, profile.threads);
        if (round >= 0) fastest = std::min(fastest, seconds);
      }
      return macs / fastest / profile.threads / profile.macs_per_second;
    };
    profile.convolutions.push_back(*shape);
    profile.convolutions.back().weight_copies = cpu::weight_copies(*shape, KernelTable::shipped(), std::string(cpu_instruction_set()));
    PhaseEfficiency& efficiency = profile.convolutions.back().efficiency;
    efficiency.forward = share(Phase::kForward);
    efficiency.error_back = node.input_error_needed ? share(Phase::kErrorBack) : profile.convolution.error_back;
    efficiency.parameter_gradient = share(Phase::kParameterGradient);
  }
}

}  // namespace millrace
