// What runs kernels: a GPU (cuda/cuda_machine.h) or the emulator. A layer is written once against this.
//
//   const std::unique_ptr<Machine> machine = emulated_machine({.multiprocessors = 4});
//   void* data = machine->allocate(bytes);  machine->copy_to(data, host, bytes);
//   machine->run(kernel, {.blocks = 4, .threads = 128, .shared_bytes = 4096}, parameters);
//   machine->finish();                        // waits; throws what went wrong since the last time
//
// Work is queued in order; finish() is the only call that waits. Memory belongs to the machine until release(). One thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/rnn/device/emulator.h"
#include "gpu/rnn/error.h"
#include "gpu/rnn/kernels/dense.h"
#include "gpu/rnn/performance_model.h"

namespace millrace::rnn {

class Library;  // library.h

enum class Precision { kFloat, kHalf, kBFloat16 };

std::string_view name_of(Precision precision);
std::string_view name_of(Recurrence recurrence);
constexpr int bytes_of(Precision precision) { return precision == Precision::kFloat ? 4 : 2; }

// A kernel as data: see kernels/shapes.h for the numbers.
struct KernelShape {
  Recurrence recurrence = Recurrence::kLstm;
  bool backward = false;
  Precision precision = Precision::kFloat;
  bool matrix_units = false;
  int rows = 0;
  int columns = 0;
  int group = 1;
  int samples = 1;
  // The one-exchange form of the canonical GRU: units of a block and outputs of a thread at most; 0 for all else.
  int width = 0;
  int outputs = 0;
  int cluster = 1;  // blocks
  friend bool operator==(const KernelShape&, const KernelShape&) = default;
};
std::string name_of(const KernelShape& shape);
// Samples that a block takes at a time.
constexpr int height_of(const KernelShape& shape) { return shape.matrix_units ? shape.samples * device::kFragmentSamples : shape.samples; }

struct Kernel {
  KernelShape shape;
  int (*shared_bytes)(int hidden, int threads, int slices) = nullptr;
  const void* entry = nullptr;  // for the machine
};

struct Grid {
  int blocks;
  int threads;
  int shared_bytes;
};

inline constexpr int kBlocksOfCluster = 8;  // in every kernel of clusters

struct Limits {
  int multiprocessors = 0;
  int shared_bytes = 0;  // of one block, at most
  int clusters = 0;      // of kBlocksOfCluster blocks that can be resident at once; none before compute capability 9.0
};

class Machine {
 public:
  Machine() = default;
  virtual ~Machine() = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  virtual std::string name() const = 0;
  virtual Limits limits() const = 0;
  virtual const std::vector<Kernel>& kernels() const = 0;
  // Of the performance model.
  virtual Gpu constants() const { return titan_v(); }

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual void copy_to(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_from(void* host, const void* device, std::size_t bytes) = 0;
  virtual void fill(void* memory, int byte, std::size_t bytes) = 0;

  // All blocks resident at once.
  virtual void run(const Kernel& kernel, const Grid& grid, const Parameters& parameters) = 0;
  // Left and right are of the same format.
  virtual void multiply(const MatrixJob& job, Precision precision) = 0;
  virtual void sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns) = 0;
  virtual void change_format(const float* from, void* to, Precision precision, long long count) = 0;
  virtual void widen(const void* from, Precision precision, float* to, long long count) = 0;  // change_format() back
  virtual void single_step(const KernelShape& shape, int phase, const Parameters& parameters, int side, int step, const float* sums) = 0;
  virtual void finish() = 0;

  // Another way to run whole layers; null where there is none. Found when first asked for, and the machine's.
  virtual Library* dnn_library() { return nullptr; }
};

struct EmulatedGpu {
  int multiprocessors = 8;
  int shared_bytes = 227 * 1024;
  int clusters = 0;
  emulator::Schedule schedule = emulator::Schedule::kInTurn;
  unsigned seed = 1;
  // Planted faults, see emulator::Launch.
  int faulty_barrier_period = 0;
  int faulty_barrier = 0;
  bool faulty_release = false;
  int missing_blocks = 0;          // of every persistent launch, that never become resident
  Library* dnn_library = nullptr;  // that it hands out
};
std::unique_ptr<Machine> emulated_machine(const EmulatedGpu& gpu);

}  // namespace millrace::rnn
