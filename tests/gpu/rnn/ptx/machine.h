// A machine (gpu/rnn/machine.h) that runs whole layers through the PTX that nvcc made: persistent kernels and everything around them.
//
//   const std::unique_ptr<Module> ...                            // of every object of the kernels, for one architecture
//   PtxMachine machine(modules, {.multiprocessors = 132, .shared_bytes = 227 * 1024});
//   machine.set_schedule(Schedule::kLate, 7);
//   RnnLayer layer(machine, shape);
//
// Memory is the host's. Modules outlive the machine. Throws GridError for what is wrong inside a kernel.
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include "gpu/rnn/machine.h"
#include "tests/gpu/rnn/ptx/grid.h"

namespace millrace::rnn::ptx {

// Whether code for "sm_90a" and the like knows clusters of blocks.
inline bool has_clusters(const std::string& target) { return std::atoi(target.c_str() + 3) >= 90; }

class PtxMachine : public Machine {
 public:
  PtxMachine(std::vector<const Module*> modules, const Limits& limits);
  ~PtxMachine() override;

  // Of what is launched from here on. Kernels around the recurrence take theirs in turn, unless everything is to be scheduled.
  void set_schedule(Schedule schedule, unsigned seed, bool everything = false) {
    schedule_ = schedule;
    seed_ = seed;
    everything_ = everything;
  }
  void set_missing_blocks(int blocks) { missing_blocks_ = blocks; }
  // Memory besides its own that kernels may access.
  void set_memory_of_others(MayAccess may_access) { of_others_ = std::move(may_access); }
  // Of the last persistent kernel.
  const Statistics& statistics() const { return statistics_; }
  unsigned long long instructions() const { return instructions_; }

  std::string name() const override { return "PTX for " + target_; }
  Limits limits() const override { return limits_; }
  const std::vector<Kernel>& kernels() const override { return kernels_; }
  void* allocate(std::size_t bytes) override;
  void release(void* memory) override;
  void copy_to(void* device, const void* host, std::size_t bytes) override;
  void copy_from(void* host, const void* device, std::size_t bytes) override;
  void fill(void* memory, int byte, std::size_t bytes) override;
  void run(const Kernel& kernel, const Grid& grid, const Parameters& parameters) override;
  void multiply(const MatrixJob& job, Precision precision) override;
  void sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns) override;
  void change_format(const float* from, void* to, Precision precision, long long count) override;
  void widen(const void* from, Precision precision, float* to, long long count) override;
  void single_step(const KernelShape& shape, int phase, const Parameters& parameters, int side, int step, const float* sums) override;
  void spread_bias(const MatrixJob& job);
  void finish() override {}

 private:
  struct Size {
    int blocks, threads;
    int shared_bytes = 0;
    int cluster = 1;
  };
  const Entry& entry(const std::string& part);
  template <class... Arguments>
  Statistics launch(const std::string& part, const Size& size, bool scheduled, const Arguments&... arguments);
  bool may_access(std::uint64_t address, std::size_t bytes);

  std::vector<const Module*> modules_;
  std::string target_;
  Limits limits_;
  std::vector<Kernel> kernels_;
  std::map<std::string, const Entry*> found_;
  std::map<std::uint64_t, std::size_t> allocations_;  // by address
  MayAccess of_others_;
  std::uint64_t last_begin_ = 0, last_end_ = 0;
  Schedule schedule_ = Schedule::kInTurn;
  unsigned seed_ = 1;
  bool everything_ = false;
  int missing_blocks_ = 0;
  Statistics statistics_;
  unsigned long long instructions_ = 0;
};

}  // namespace millrace::rnn::ptx
