#include <algorithm>
#include <functional>

#include "gpu/rnn/cuda/micro_benchmarks.h"
#include "gpu/rnn/device/vocabulary.h"

namespace millrace::rnn {
namespace {

constexpr int kTurns = 4096;
constexpr int kSchedulers = 4;
constexpr int kStates = 1024;

// As a block multiplies: a state from shared memory serves all outputs of a thread; each output's sum is a chain.
template <int kOutputs>
__global__ void products_kernel(float* out, float weight) {
  __shared__ float states[kStates];
  for (int i = device::thread_index(); i < kStates; i += device::thread_count()) states[i] = weight;
  device::block_barrier();
  float sums[kOutputs] = {};
  for (int i = 0; i < kTurns; ++i) {
    const float state = states[(i + device::lane_index()) % kStates];
    MILLRACE_UNROLL
    for (int o = 0; o < kOutputs; ++o) sums[o] = sums[o] * weight + state;
  }
  float sum = 0;
  for (int o = 0; o < kOutputs; ++o) sum += sums[o];
  out[device::block_index() * device::thread_count() + device::thread_index()] = sum;
}

template <int kOutputs>
__global__ void reductions_kernel(float* out, float value) {
  float sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) sums[o] = value * static_cast<float>(o);
  for (int i = 0; i < kTurns; ++i) {
    MILLRACE_UNROLL
    for (int o = 0; o < kOutputs; ++o) sums[o] += device::shuffle_xor(sums[o], 1);
  }
  float sum = 0;
  for (int o = 0; o < kOutputs; ++o) sum += sums[o];
  out[device::block_index() * device::thread_count() + device::thread_index()] = sum;
}

// Every block reads the same few mebibytes again and again, past its own cache.
__global__ void bandwidth_kernel(const device::Four* from, float* out, int count, int turns) {
  unsigned sum = 0;
  for (int turn = 0; turn < turns; ++turn)
    for (int i = device::thread_index(); i < count; i += device::thread_count()) sum += device::load_relaxed(from + i).word[turn % 4];
  out[device::block_index() * device::thread_count() + device::thread_index()] = static_cast<float>(sum);
}

// Every access waits for the one before.
__global__ void latency_kernel(const unsigned* from, float* out, int turns) {
  unsigned at = 0;
  for (int i = 0; i < turns; ++i) at = device::load_relaxed(from + at);
  out[0] = static_cast<float>(at);
}

class Clock {
 public:
  explicit Clock(CudaMachine& gpu) : gpu_(gpu) {
    require(cudaEventCreate(&begin_), "timing");
    require(cudaEventCreate(&end_), "timing");
  }
  ~Clock() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  // The least of several runs, in seconds.
  double seconds(const std::function<void()>& launch) {
    double least = 0;
    for (int run = 0; run < 5; ++run) {
      require(cudaEventRecord(begin_, gpu_.stream()), "timing");
      launch();
      require(cudaGetLastError(), "launching a micro-benchmark");
      require(cudaEventRecord(end_, gpu_.stream()), "timing");
      require(cudaEventSynchronize(end_), "timing");
      float milliseconds = 0;
      require(cudaEventElapsedTime(&milliseconds, begin_, end_), "timing");
      const double time = 1e-3 * static_cast<double>(milliseconds);
      if (run > 0) least = run == 1 ? time : std::min(least, time);  // the first one warms up
    }
    return least;
  }

 private:
  CudaMachine& gpu_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

Timings micro_benchmarks(CudaMachine& gpu) {
  Clock clock(gpu);
  const int blocks = gpu.limits().multiprocessors;
  const cudaStream_t stream = gpu.stream();
  auto* const out = static_cast<float*>(gpu.allocate(static_cast<std::size_t>(blocks) * 1024 * sizeof(float)));
  constexpr int kBytes = 1 << 20;
  auto* const data = gpu.allocate(kBytes);
  gpu.fill(data, 0, kBytes);

  Timings timings;
  timings.multiprocessors = blocks;
  timings.multiply_adds = kTurns;
  timings.exchanges = kTurns;
  int kilohertz = 0;
  int device = 0;
  require(cudaGetDevice(&device), "asking for the clock");
  require(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device), "asking for the clock");
  require(cudaDeviceGetAttribute(&timings.registers, cudaDevAttrMaxRegistersPerMultiprocessor, device), "asking for registers");
  timings.cycles_per_time = 1e3 * kilohertz;
  const auto time = [&](int warps, int outputs, auto products, auto reductions) {
    const auto grid = static_cast<unsigned>(blocks);
    const auto threads = static_cast<unsigned>(32 * kSchedulers * warps);
    timings.products.push_back({warps, outputs, clock.seconds([&] { products<<<grid, threads, 0, stream>>>(out, 0.5F); })});
    timings.reductions.push_back({warps, outputs, clock.seconds([&] { reductions<<<grid, threads, 0, stream>>>(out, 0.5F); })});
  };
  for (const int warps : {1, 2, 4, 8}) {
    time(warps, 1, products_kernel<1>, reductions_kernel<1>);
    time(warps, 2, products_kernel<2>, reductions_kernel<2>);
    time(warps, 4, products_kernel<4>, reductions_kernel<4>);
    time(warps, 8, products_kernel<8>, reductions_kernel<8>);
  }
  constexpr int kReads = 64;
  timings.l2_bytes = 1.0 * kReads * kBytes;
  timings.l2_time = clock.seconds([&] {
    bandwidth_kernel<<<static_cast<unsigned>(blocks / 2), 1024, 0, stream>>>(static_cast<const device::Four*>(data), out, kBytes / 16,
                                                                             kReads);
  });
  constexpr int kChain = 4096;
  timings.l2_latency_time =
      clock.seconds([&] { latency_kernel<<<1, 1, 0, stream>>>(static_cast<const unsigned*>(data), out, kChain); }) / kChain;
  gpu.release(out);
  gpu.release(data);
  return timings;
}

}  // namespace millrace::rnn
