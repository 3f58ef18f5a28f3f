#include "tests/gpu/rnn/ptx/machine.h"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <typeinfo>

#include "gpu/rnn/dispatch.h"
#include "tests/gpu/rnn/shipped_table.h"

namespace millrace::rnn::ptx {
namespace {

constexpr int kThreads = 256;  // of the kernels around the recurrence, as helper_kernels.cu launches them

int blocks_for(long long count) { return static_cast<int>((count + kThreads - 1) / kThreads); }

const char* type_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return "float";
    case Precision::kHalf: return "millrace::rnn::Half";
    case Precision::kBFloat16: return "millrace::rnn::BFloat16";
  }
  return "";
}

template <class T>
std::string type_name() {
  int status = 0;
  char* const name = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status);
  std::string text = status == 0 ? name : "";
  std::free(name);
  return text;
}

}  // namespace

PtxMachine::PtxMachine(std::vector<const Module*> modules, const Limits& limits) : modules_(std::move(modules)), limits_(limits) {
  target_ = modules_.at(0)->target();
  if (!has_clusters(target_)) limits_.clusters = 0;
  for (const ShippedKernel& one : shipped_table()) {
    kernels_.push_back(one.kernel);
    kernels_.back().entry = &one;
  }
}

PtxMachine::~PtxMachine() {
  for (const auto& [address, bytes] : allocations_) std::free(reinterpret_cast<void*>(address));
}

void* PtxMachine::allocate(std::size_t bytes) {
  void* const memory = std::aligned_alloc(256, (bytes + 511) / 256 * 256);
  if (memory == nullptr) throw RnnError(RnnFailure::kOutOfMemory, std::to_string(bytes) + " bytes");
  std::memset(memory, 0xA5, bytes);  // what was never written shows
  allocations_[reinterpret_cast<std::uint64_t>(memory)] = bytes;
  return memory;
}
void PtxMachine::release(void* memory) {
  last_begin_ = last_end_ = 0;
  if (allocations_.erase(reinterpret_cast<std::uint64_t>(memory)) > 0) std::free(memory);
}
void PtxMachine::copy_to(void* device, const void* host, std::size_t bytes) { std::memcpy(device, host, bytes); }
void PtxMachine::copy_from(void* host, const void* device, std::size_t bytes) { std::memcpy(host, device, bytes); }
void PtxMachine::fill(void* memory, int byte, std::size_t bytes) { std::memset(memory, byte, bytes); }

bool PtxMachine::may_access(std::uint64_t address, std::size_t bytes) {
  if (address >= last_begin_ && address + bytes <= last_end_) return true;
  if (of_others_ && of_others_(address, bytes)) return true;
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) return false;
  --after;
  if (address + bytes > after->first + after->second) return false;
  last_begin_ = after->first;
  last_end_ = after->first + after->second;
  return true;
}

const Entry& PtxMachine::entry(const std::string& part) {
  const Entry*& found = found_[part];
  if (found != nullptr) return *found;
  for (const Module* module : modules_)
    if (const Entry* const one = module->entry(part)) found = one;
  if (found == nullptr) throw PtxError("the PTX for " + target_ + " has no " + part);
  return *found;
}

template <class... Arguments>
Statistics PtxMachine::launch(const std::string& part, const Size& of, bool scheduled, const Arguments&... arguments) {
  const Entry& found = entry(part);
  std::vector<unsigned char> bytes(static_cast<std::size_t>(found.parameter_bytes));
  if (found.parameters.size() != sizeof...(arguments)) throw PtxError(part + " takes another number of parameters");
  std::size_t next = 0;
  const auto place = [&](const void* value, std::size_t size) {
    const Parameter& parameter = found.parameters[next++];
    if (static_cast<std::size_t>(parameter.bytes) != size) throw PtxError("a parameter of " + part + " has another size");
    std::memcpy(bytes.data() + parameter.offset, value, size);
  };
  (place(&arguments, sizeof(arguments)), ...);
  Launch launch;
  launch.blocks = of.blocks;
  launch.threads = of.threads;
  launch.cluster = of.cluster;
  launch.shared_bytes = of.shared_bytes;
  launch.schedule = scheduled || everything_ ? schedule_ : Schedule::kInTurn;
  launch.seed = seed_;
  launch.missing_blocks = scheduled ? rounded_up(missing_blocks_, of.cluster) : 0;
  const Statistics statistics =
      ptx::run(found, launch, bytes, [this](std::uint64_t address, std::size_t size) { return may_access(address, size); });
  instructions_ += statistics.instructions;
  return statistics;
}

void PtxMachine::run(const Kernel& kernel, const Grid& grid, const Parameters& parameters) {
  const auto& shipped = *static_cast<const ShippedKernel*>(kernel.entry);
  const int cluster = kernel.shape.cluster;
  statistics_ = launch((cluster > 1 ? "clustered_kernel<" : "persistent_kernel<") + shipped.type + ">(",
                       {grid.blocks, grid.threads, grid.shared_bytes, cluster}, true, parameters);
}

void PtxMachine::multiply(const MatrixJob& job, Precision precision) {
  if (job.rows < 1 || job.columns < 1) return;
  launch("::multiply_kernel<" + std::string(type_of(precision)) + ">(", {blocks_of(job), kJobThreads, kJobSharedBytes}, false, job);
}

void PtxMachine::sum_rows(const void* matrix, Precision precision, float* sums, int rows, int columns) {
  launch("::sum_rows_kernel<" + std::string(type_of(precision)) + ">(", {blocks_for(32LL * columns), kThreads}, false, matrix, sums, rows,
         columns);
}

void PtxMachine::change_format(const float* from, void* to, Precision precision, long long count) {
  if (count > 0)
    launch("::change_format_kernel<" + std::string(type_of(precision)) + ">(", {blocks_for(count), kThreads}, false, from, to, count);
}

void PtxMachine::widen(const void* from, Precision precision, float* to, long long count) {
  if (count > 0) launch("::widen_kernel<" + std::string(type_of(precision)) + ">(", {blocks_for(count), kThreads}, false, from, to, count);
}

void PtxMachine::single_step(const KernelShape& shape, int phase, const Parameters& p, int side, int step, const float* sums) {
  with_cell(shape, [&]<class Cell>(Cell) {
    const int taken = Cell::kPhases == 2 && phase == 1 ? 1 : 0;
    launch("::single_step_kernel<" + type_name<Cell>() + "," + std::to_string(taken) + ">(",
           {blocks_for(static_cast<long long>(p.batch) * p.hidden), kThreads}, false, p, side, step, sums);
  });
}

void PtxMachine::spread_bias(const MatrixJob& job) {
  launch("::spread_bias_kernel(", {blocks_for(static_cast<long long>(job.rows) * job.columns), kThreads}, false, job);
}

}  // namespace millrace::rnn::ptx
