#include "tests/gpu/rnn/ptx/micro_counts.h"

#include <cstring>
#include <string>

#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/ptx/grid.h"

namespace millrace::rnn::ptx {
namespace {

constexpr int kTurns = 4096;  // of micro_benchmarks.cu
constexpr int kThreads = 32;

// Parameters one after the other, as a kernel takes them.
class Packed {
 public:
  template <class T>
  Packed& add(const T& value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T) + sizeof(T));
    std::memcpy(bytes_.data() + bytes_.size() - sizeof(T), &value, sizeof(T));
    return *this;
  }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  std::vector<unsigned char> bytes_;
};

Statistics counted(const std::vector<const Module*>& modules, const std::string& kernel, const Packed& parameters) {
  const Entry* entry = nullptr;
  for (const Module* module : modules)
    if (entry == nullptr) entry = module->entry(kernel);
  if (entry == nullptr) throw PtxError("no entry " + kernel);
  Launch launch;
  launch.blocks = 1;
  launch.threads = kThreads;
  return run(*entry, launch, parameters.bytes(), [](std::uint64_t, std::size_t) { return true; });
}

}  // namespace

void check_micro_benchmarks(const std::vector<const Module*>& modules) {
  const std::string target = modules.front()->target() + ", ";
  std::vector<float> out(kThreads);
  for (const int outputs : {1, 2, 4, 8}) {
    std::string of = std::to_string(outputs);
    of = '<' + of + ">(";
    const Packed parameters = Packed().add(out.data()).add(0.5F);
    const Statistics products = counted(modules, "products_kernel" + of, parameters);
    const long long multiply_adds = products.chain[0].products + products.chain[1].products;
    expect(multiply_adds == 1LL * kTurns * outputs,
           target + "products_kernel" + of + ": " + std::to_string(multiply_adds) + " multiply-adds of a thread");
    // Every sum is a chain that ends in 1/2 + 1/4 + ...
    expect(out[1] == static_cast<float>(outputs), target + "products_kernel" + of + ": " + std::to_string(out[1]));
    const Statistics reductions = counted(modules, "reductions_kernel" + of, parameters);
    const long long exchanges = reductions.chain[0].exchanges + reductions.chain[1].exchanges;
    expect(exchanges == 1LL * kTurns * outputs,
           target + "reductions_kernel" + of + ": " + std::to_string(exchanges) + " exchanges of a thread");
  }
  // Chunks of 16 bytes: each is asked for in every turn, and no other.
  struct alignas(16) Four {
    unsigned word[4];
  };
  constexpr int kCount = 96, kReads = 3;
  const std::vector<Four> data(kCount);
  const Four* const from = data.data();
  const Statistics bandwidth = counted(modules, "bandwidth_kernel(", Packed().add(from).add(out.data()).add(kCount).add(kReads));
  expect(bandwidth.strong_loads == kCount * kReads && bandwidth.different_loads == kCount,
         target + "bandwidth_kernel: " + std::to_string(bandwidth.strong_loads) + " loads");
  const unsigned next[2] = {0, 0};
  const unsigned* const chain = next;
  const Statistics latency = counted(modules, "latency_kernel(", Packed().add(chain).add(out.data()).add(100));
  expect(latency.strong_loads == 100ULL * kThreads, target + "latency_kernel: " + std::to_string(latency.strong_loads) + " loads");
}

}  // namespace millrace::rnn::ptx
