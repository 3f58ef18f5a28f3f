// The emulator as a machine, with kernels of small tiles, whose tests are quick: the code is that of the large ones.
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <unordered_map>
#include <utility>

#include "gpu/rnn/dispatch.h"
#include "gpu/rnn/machine.h"

namespace millrace::rnn {
namespace {

using Run = void (*)(const Parameters&);

template <class K>
void run_kernel(const Parameters& parameters) {
  K::run(parameters);
}

// Pointers to functions do not convert to pointers to void in C++: the table holds the address of one of these.
template <class K>
inline constexpr Run kRunner = &run_kernel<K>;

template <Recurrence kRecurrence, bool kBackward, class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples,
          int kCluster = 1>
Kernel entry() {
  using K = KernelOf<kRecurrence, kBackward, S, kMatrixUnits, kRows, kColumns, kGroup, kSamples, kCluster>;
  return {{kRecurrence, kBackward, precision_of<S>(), kMatrixUnits, kRows, kColumns, kGroup, kSamples, 0, 0, kCluster},
          &K::shared_bytes,
          &kRunner<K>};
}

template <int kRows, int kColumns, int kGroup, int kSamples, int kWidth, int kOutputs>
Kernel one_exchange() {
  using K = GruOneExchange<FmaProduct<kRows, kColumns, kGroup, kSamples>, kWidth, kOutputs>;
  KernelShape shape{Recurrence::kCanonicalGru, false, Precision::kFloat, false, kRows, kColumns, kGroup, kSamples, kWidth, kOutputs};
  return {shape, &K::shared_bytes, &kRunner<K>};
}

template <Recurrence kRecurrence>
void add_small(std::vector<Kernel>& table) {
  table.push_back(entry<kRecurrence, false, float, false, 2, 4, 8, 2>());
  table.push_back(entry<kRecurrence, true, float, false, 2, 4, 8, 2>());
  table.push_back(entry<kRecurrence, false, float, false, 3, 8, 4, 1>());
  table.push_back(entry<kRecurrence, true, float, false, 3, 8, 4, 1>());
}
template <Recurrence kRecurrence, class S>
void add_small_matrix(std::vector<Kernel>& table) {
  table.push_back(entry<kRecurrence, false, S, true, 1, 2, 1, 1>());
  table.push_back(entry<kRecurrence, true, S, true, 1, 4, 1, 1>());
  table.push_back(entry<kRecurrence, false, S, true, 2, 2, 1, 2>());
  table.push_back(entry<kRecurrence, true, S, true, 2, 3, 1, 2>());
}

std::vector<Kernel> every_kernel() {
  std::vector<Kernel> table;
  table.push_back(entry<Recurrence::kLstm, false, float, false, 4, 8, 32, 1>());
  table.push_back(entry<Recurrence::kLstm, true, float, false, 4, 8, 32, 1>());
  add_small<Recurrence::kLstm>(table);
  add_small<Recurrence::kGru>(table);
  add_small<Recurrence::kCanonicalGru>(table);
  add_small<Recurrence::kTanh>(table);
  add_small<Recurrence::kRelu>(table);
  add_small_matrix<Recurrence::kLstm, Half>(table);
  add_small_matrix<Recurrence::kLstm, BFloat16>(table);
  add_small_matrix<Recurrence::kGru, Half>(table);
  add_small_matrix<Recurrence::kGru, BFloat16>(table);
  add_small_matrix<Recurrence::kCanonicalGru, BFloat16>(table);
  add_small_matrix<Recurrence::kTanh, Half>(table);
  table.push_back(one_exchange<4, 8, 32, 1, 8, 2>());
  table.push_back(one_exchange<2, 4, 8, 2, 8, 2>());
  table.push_back(entry<Recurrence::kLstm, false, float, false, 2, 4, 4, 2, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kLstm, true, float, false, 2, 8, 8, 1, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kGru, false, float, false, 3, 4, 2, 1, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kGru, true, float, false, 2, 8, 8, 1, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kLstm, false, Half, true, 1, 2, 1, 1, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kLstm, true, BFloat16, true, 1, 2, 1, 1, kBlocksOfCluster>());
  table.push_back(entry<Recurrence::kLstm, false, BFloat16, true, 1, 2, 1, 1, kBlocksOfCluster>());
  return table;
}

class EmulatedMachine : public Machine {
 public:
  explicit EmulatedMachine(const EmulatedGpu& gpu) : gpu_(gpu) {}
  ~EmulatedMachine() override {
    for (const auto& [memory, bytes] : allocations_) std::free(memory);
  }

  std::string name() const override { return "emulated GPU"; }
  Limits limits() const override { return {gpu_.multiprocessors, gpu_.shared_bytes, gpu_.clusters}; }
  const std::vector<Kernel>& kernels() const override {
    static const std::vector<Kernel> table = every_kernel();
    return table;
  }

  void* allocate(std::size_t bytes) override {
    void* const memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (memory == nullptr) throw RnnError(RnnFailure::kOutOfMemory, std::to_string(bytes) + " bytes");
    std::memset(memory, 0xA5, bytes);  // what was never written shows
    allocations_[memory] = bytes;
    return memory;
  }
  void release(void* memory) override {
    if (allocations_.erase(memory) > 0) std::free(memory);
  }
  void copy_to(void* device, const void* host, std::size_t bytes) override { std::memcpy(device, host, bytes); }
  void copy_from(void* host, const void* device, std::size_t bytes) override { std::memcpy(host, device, bytes); }
  void fill(void* memory, int byte, std::size_t bytes) override { std::memset(memory, byte, bytes); }

  void run(const Kernel& kernel, const Grid& grid, const Parameters& parameters) override {
    const Run body = *static_cast<const Run*>(kernel.entry);
    launch(
        grid, [&] { body(parameters); }, true, kernel.shape.cluster);
  }
  void multiply(const MatrixJob& job, Precision precision) override {
    const Grid grid{blocks_of(job), kJobThreads, kJobSharedBytes};
    switch (precision) {
      case Precision::kFloat: return launch(grid, [&] { multiply_matrices<float, float>(job); });
      case Precision::kHalf: return launch(grid, [&] { multiply_matrices<Half, Half>(job); });
      case Precision::kBFloat16: return launch(grid, [&] { multiply_matrices<BFloat16, BFloat16>(job); });
    }
  }
  void sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns) override {
    const Grid grid{ceil_of(columns, 2), 64, 0};
    switch (precision) {
      case Precision::kFloat: return launch(grid, [&] { rnn::sum_rows(static_cast<const float*>(matrix), sums, rows, columns); });
      case Precision::kHalf: return launch(grid, [&] { rnn::sum_rows(static_cast<const Half*>(matrix), sums, rows, columns); });
      case Precision::kBFloat16: return launch(grid, [&] { rnn::sum_rows(static_cast<const BFloat16*>(matrix), sums, rows, columns); });
    }
  }
  void change_format(const float* from, void* to, Precision precision, long long count) override {
    const Grid grid{static_cast<int>((count + 127) / 128), 128, 0};
    switch (precision) {
      case Precision::kFloat: return launch(grid, [&] { rnn::change_format(from, static_cast<float*>(to), count); });
      case Precision::kHalf: return launch(grid, [&] { rnn::change_format(from, static_cast<Half*>(to), count); });
      case Precision::kBFloat16: return launch(grid, [&] { rnn::change_format(from, static_cast<BFloat16*>(to), count); });
    }
  }
  void widen(const void* from, Precision precision, float* to, long long count) override {
    const Grid grid{static_cast<int>((count + 127) / 128), 128, 0};
    with_format(precision, [&]<class S>(S) { launch(grid, [&] { rnn::widen(static_cast<const S*>(from), to, count); }); });
  }
  void single_step(const KernelShape& shape, int phase, const Parameters& p, int side, int step, const float* sums) override {
    const Grid grid{ceil_of(p.batch * p.hidden, 128), 128, 0};
    with_cell(shape, [&]<class Cell>(Cell) {
      launch(grid, [&] {
        if constexpr (Cell::kPhases == 2) {
          if (phase == 1) return SingleStep<Cell>::template finish<1>(p, side, step, sums);
        }
        SingleStep<Cell>::template finish<0>(p, side, step, sums);
      });
    });
  }
  void finish() override {}
  Library* dnn_library() override { return gpu_.dnn_library; }

 private:
  void launch(const Grid& grid, const std::function<void()>& kernel, bool with_faults = false, int cluster = 1) {
    emulator::Launch launch{.blocks = grid.blocks,
                            .threads = grid.threads,
                            .shared_bytes = static_cast<std::size_t>(grid.shared_bytes),
                            .cluster = cluster,
                            .schedule = gpu_.schedule,
                            .seed = gpu_.seed};
    if (with_faults) {
      launch.faulty_barrier_period = gpu_.faulty_barrier_period;
      launch.faulty_barrier = gpu_.faulty_barrier;
      launch.faulty_release = gpu_.faulty_release;
      launch.blocks -= rounded_up(gpu_.missing_blocks, cluster);  // clusters are resident or not as a whole
    }
    emulator::run(launch, kernel);
  }

  EmulatedGpu gpu_;
  std::unordered_map<void*, std::size_t> allocations_;
};

}  // namespace

std::unique_ptr<Machine> emulated_machine(const EmulatedGpu& gpu) { return std::make_unique<EmulatedMachine>(gpu); }

}  // namespace millrace::rnn
