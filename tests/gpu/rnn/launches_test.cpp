// Every launch that the benchmark's choice of layouts makes, replayed with the limits of real GPUs against a stand-in of the
// CUDA runtime: one shared-memory number per kernel, which a launch must not exceed. None may be refused, whatever the order.
#include <algorithm>
#include <map>

#include "gpu/rnn/architectures.h"
#include "gpu/rnn/bench/grid.h"
#include "gpu/rnn/kernels/shapes.h"
#include "gpu/rnn/selection.h"
#include "gpu/rnn/shared_reservations.h"
#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/shipped_table.h"

namespace millrace::rnn {
namespace {

struct RealGpu {
  const char* name;
  Limits limits;
  int capability;
  Gpu constants() const { return constants_of(capability, limits.multiprocessors); }
};
// Multiprocessors, and shared memory of a block by opting in, as the CUDA programming guide gives them by compute capability. Clusters
// of eight: assumed, at least one in every part of a GPU, two where it has 16 multiprocessors; a program asks the runtime.
constexpr RealGpu kGpus[] = {{"H200", {132, 227 * 1024, 16}, 90},     {"A100", {108, 163 * 1024}, 80},
                             {"RTX 4090", {128, 99 * 1024}, 89},      {"RTX 3060", {28, 99 * 1024}, 86},
                             {"RTX 5090", {170, 99 * 1024, 11}, 120}, {"B200", {148, 227 * 1024, 16}, 100}};

constexpr int kDefaultShared = 48 * 1024;  // of a kernel whose number nobody set
constexpr int kRegisters = 65536;          // of a multiprocessor, on all of them
constexpr int kMostRegisters = 255;        // of a thread, what the kernels' launch bounds allow

// What cudaFuncSetAttribute and cudaLaunchCooperativeKernel do and refuse.
class Runtime {
 public:
  explicit Runtime(const Limits& limits) : limits_(limits) {}
  bool set_attribute(const void* kernel, int bytes) {
    shared_[kernel] = bytes;
    return bytes <= limits_.shared_bytes;
  }
  bool launch(const void* kernel, int cluster, int blocks, int threads, int bytes) const {
    const auto set = shared_.find(kernel);
    const bool fits = cluster == 1 || (blocks % cluster == 0 && blocks / cluster <= limits_.clusters);
    return fits && bytes <= (set == shared_.end() ? kDefaultShared : set->second) && blocks <= limits_.multiprocessors && blocks > 0 &&
           threads <= kKernelThreads && threads * kMostRegisters <= kRegisters;
  }

 private:
  Limits limits_;
  std::map<const void*, int> shared_;
};

std::vector<Kernel> table_with_entries() {
  std::vector<Kernel> kernels;
  for (const ShippedKernel& one : shipped_table()) {
    kernels.push_back(one.kernel);
    kernels.back().entry = &one;  // any address of its own
  }
  return kernels;
}

struct Replay {
  int launches = 0;
  int refused = 0;
  int problems = 0;
  int clustered = 0;  // whose first layout is one of clusters
  int otherwise = 0;  // whose first layout is another one than with Titan V's constants
};

// A prepare(kernel, bytes) before every launch stands for RealGpu::run.
template <class Prepare>
Replay replay(const RealGpu& gpu, Prepare prepare) {
  const std::vector<Kernel> kernels = table_with_entries();
  Runtime runtime(gpu.limits);
  Replay found;
  const auto launch = [&](const Layout& layout, int sides) {
    prepare(runtime, layout.kernel.entry, layout.shared_bytes);
    ++found.launches;
    if (runtime.launch(layout.kernel.entry, layout.kernel.shape.cluster, layout.blocks(sides), layout.threads, layout.shared_bytes)) return;
    ++found.refused;
  };
  std::vector<Problem> problems;
  for (const Case& one : grid(Extent::kFull))
    for (const bool backward : {false, true})
      for (const int sides : {1, 2})
        if (!backward || one.shape.training)
          problems.push_back({one.shape.recurrence, backward, one.shape.precision, one.shape.hidden, one.shape.batch, sides});
  for (const Problem& p : std::vector<Problem>(problems))
    for (const Recurrence other : {Recurrence::kCanonicalGru, Recurrence::kTanh, Recurrence::kRelu}) {
      if (p.recurrence != Recurrence::kGru) break;
      problems.push_back(p);
      problems.back().recurrence = other;
    }
  for (const Problem& problem : problems) {
    const std::vector<Layout> ranked = ranked_layouts(kernels, gpu.limits, problem, gpu.constants());
    if (ranked.empty()) continue;
    ++found.problems;
    found.clustered += ranked.front().kernel.shape.cluster > 1 ? 1 : 0;
    found.otherwise += name_of(ranked.front()) != name_of(ranked_layouts(kernels, gpu.limits, problem, titan_v()).front()) ? 1 : 0;
    // Everything is measured in the model's order; then any of them may have won and runs again.
    for (const Layout& layout : ranked) launch(layout, problem.sides);
    for (const Layout& layout : ranked) launch(layout, problem.sides);
  }
  return found;
}

void launches() {
  for (const RealGpu& gpu : kGpus) {
    SharedReservations reserved;
    const Replay found = replay(gpu, [&](Runtime& runtime, const void* kernel, int bytes) {
      reserved.raise(kernel, bytes, [&] { expect(runtime.set_attribute(kernel, bytes), std::string(gpu.name) + ": more than there is"); });
    });
    std::printf("%s: %d problems, %d of them laid out otherwise than with Titan V's constants, %d in clusters, %d launches, %d refused\n",
                gpu.name, found.problems, found.otherwise, found.clustered, found.launches, found.refused);
    expect(found.refused == 0 && found.launches > 1000, std::string(gpu.name) + ": " + std::to_string(found.refused) + " launches refused");
  }
  // The stand-in sees what was wrong once: to remember kernel and bytes, and to lower the number in between.
  std::map<std::pair<const void*, int>, bool> prepared;
  const Replay before = replay(kGpus[0], [&](Runtime& runtime, const void* kernel, int bytes) {
    if (!prepared[{kernel, bytes}]) runtime.set_attribute(kernel, bytes);
    prepared[{kernel, bytes}] = true;
  });
  expect(before.refused > 0, "remembering pairs of kernel and bytes must be refused some launches");
  std::printf("remembering pairs instead: %d of %d refused\n", before.refused, before.launches);
}

// Until a clock decides, weights in registers come before weights in shared memory.
void registers_first() {
  const auto beyond = [](const Layout& layout, int columns) {
    const KernelShape& s = layout.kernel.shape;
    return spilled_columns(FmaTile{s.rows, s.columns, s.group, s.samples}, layout.slices, columns_in_cluster(columns, s.cluster));
  };
  for (const RealGpu& gpu : kGpus)
    for (const bool backward : {false, true}) {
      const int columns = backward ? 4096 : 1024;
      const std::vector<Layout> ranked =
          ranked_layouts(table_with_entries(), gpu.limits, {Recurrence::kLstm, backward, Precision::kFloat, 1024, 1, 1}, gpu.constants());
      if (ranked.empty()) continue;
      const bool possible = std::any_of(ranked.begin(), ranked.end(), [&](const Layout& layout) { return beyond(layout, columns) == 0; });
      std::printf("%s, LSTM of 1024 units%s: %s, %d columns in shared memory\n", gpu.name, backward ? ", backward" : "",
                  name_of(ranked.front()).c_str(), beyond(ranked.front(), columns));
      expect(!possible || beyond(ranked.front(), columns) == 0, std::string(gpu.name) + ": weights in shared memory first");
    }
}

void reservations() {
  SharedReservations reserved;
  const int kernel = 0;
  int set = 0;
  const auto raise = [&](int bytes) { reserved.raise(&kernel, bytes, [&] { set = bytes; }); };
  raise(100);
  raise(40);
  expect(set == 100, "never lowered");
  raise(200);
  expect(set == 200, "raised");
  try {
    reserved.raise(&kernel, 300, [] { throw RnnError(RnnFailure::kGpuFault, "in a test"); });
    expect(false, "what the runtime refuses is passed on");
  } catch (const RnnError&) {
  }
  raise(250);
  expect(set == 250, "a refused number does not count");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  reservations();
  registers_first();
  launches();
  return report("launches");
}
