// What the CUDA compiler said about the shipped kernels (OBJECT.resources, kept by record_resources.sh) against budgets:
// every kernel on every architecture, spills, registers and shared memory within the table.
//
//   resources_test BUDGETS OBJECT...
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <vector>

#include "gpu/rnn/dispatch.h"
#include "gpu/rnn/kernels/shipped.h"
#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

struct Use {
  std::string kernel, architecture;
  int registers = -1, stack = -1, spills = -1, shared = 0;
};

// The number before a word of a line; -1 when the word is not there.
int number_before(const std::string& line, const std::string& word) {
  const std::size_t at = line.find(" " + word);
  if (at == std::string::npos) return -1;
  const std::size_t begin = line.find_last_not_of("0123456789", at - 1);
  return static_cast<int>(std::strtol(line.c_str() + begin + 1, nullptr, 10));
}

std::vector<Use> read(const std::string& path) {
  std::vector<Use> uses;
  std::ifstream in(path + ".resources");
  std::string line;
  while (std::getline(in, line)) {
    const std::string entry = "Compiling entry function '";
    const std::size_t begin = line.find(entry);
    if (begin != std::string::npos) {
      const std::size_t end = line.find('\'', begin + entry.size());
      Use use;
      use.kernel = line.substr(begin + entry.size(), end - begin - entry.size());
      const std::size_t target = line.find("'sm_");
      use.architecture = target == std::string::npos ? "" : line.substr(target + 1, line.rfind('\'') - target - 1);
      uses.push_back(use);
    } else if (!uses.empty() && line.find("bytes stack frame") != std::string::npos && uses.back().stack < 0) {
      uses.back().stack = number_before(line, "bytes stack frame");
      uses.back().spills = number_before(line, "bytes spill stores") + number_before(line, "bytes spill loads");
    } else if (!uses.empty() && line.find("Used ") != std::string::npos) {
      uses.back().registers = number_before(line, "registers");
      uses.back().shared = std::max(0, number_before(line, "bytes smem"));
    }
  }
  return uses;
}

struct Budget {
  int registers = 0;
  int stack = 0;  // bytes, for spills
};

// Budgets by a part of a kernel's name: the longest part that fits decides.
std::map<std::string, Budget> read_budgets(const std::string& path) {
  std::map<std::string, Budget> budgets;
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string part;
    Budget budget;
    if (line.empty() || line.front() == '#' || !(words >> part >> budget.registers >> budget.stack)) continue;
    budgets[part] = budget;
  }
  return budgets;
}

// Dynamic shared memory of every shipped kernel at the largest size it is meant for, on the smallest of the GPUs.
constexpr int kLeastSharedBytes = 99 * 1024;  // of a block on sm_120; sm_80 has 163 KiB, sm_90 227

template <Recurrence kRecurrence, bool kBackward, class S, bool kMatrixUnits, int kRows, int kColumns, int kGroup, int kSamples>
void check_shared() {
  using K = KernelOf<kRecurrence, kBackward, S, kMatrixUnits, kRows, kColumns, kGroup, kSamples>;
  const KernelShape shape{kRecurrence, kBackward, precision_of<S>(), kMatrixUnits, kRows, kColumns, kGroup, kSamples};
  const int hidden = kColumns * kGroup <= 64 ? 64 : 1024;
  const int slices = std::max(1, kKernelThreads / (kMatrixUnits ? 32 : kGroup) / 2);
  const int bytes = K::shared_bytes(hidden, kKernelThreads, kMatrixUnits ? 8 : slices);
  expect(bytes > 0 && bytes <= kLeastSharedBytes, name_of(shape) + ": " + std::to_string(bytes) + " bytes of shared memory");
}

}  // namespace
}  // namespace millrace::rnn

int main(int count, char** arguments) {
  using namespace millrace::rnn;
  if (count < 3) return skip("no CUDA compiler: nothing was compiled for GPUs");
  const std::map<std::string, Budget> budgets = read_budgets(arguments[1]);
  expect(!budgets.empty(), std::string(arguments[1]) + " holds no budgets");
  std::map<std::string, std::set<std::string>> kernels_of;
  for (int i = 2; i < count; ++i) {
    const std::vector<Use> uses = read(arguments[i]);
    expect(!uses.empty(), std::string(arguments[i]) + " says nothing about any kernel; build again from scratch");
    for (const Use& use : uses) {
      const std::string name = use.kernel + " for " + use.architecture;
      kernels_of[use.architecture].insert(use.kernel);
      expect(use.shared <= 4096, name + ": " + std::to_string(use.shared) + " bytes of static shared memory");
      std::size_t longest = 0;
      Budget budget;
      for (const auto& [part, allowed] : budgets)
        if (use.kernel.find(part) != std::string::npos && part.size() > longest) {
          longest = part.size();
          budget = allowed;
        }
      expect(longest > 0, name + " has no budget");
      expect(use.stack >= 0 && use.stack <= budget.stack,
             name + ": " + std::to_string(use.stack) + " bytes of stack for spills, budget " + std::to_string(budget.stack));
      expect(use.registers > 0 && use.registers <= budget.registers,
             name + ": " + std::to_string(use.registers) + " registers, budget " + std::to_string(budget.registers));
    }
  }
  // Every architecture has every kernel.
  for (const auto& [architecture, kernels] : kernels_of) {
    std::printf("%s: %zu kernels\n", architecture.c_str(), kernels.size());
    expect(kernels == kernels_of.begin()->second, architecture + " has other kernels than " + kernels_of.begin()->first);
  }
#define MILLRACE_ENTRY(recurrence, backward, format, ...) check_shared<Recurrence::recurrence, backward, format, __VA_ARGS__>();
  MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kLstm)
  MILLRACE_SHIPPED_FMA(MILLRACE_ENTRY, kGru)
  MILLRACE_SHIPPED_TWO_PHASES(MILLRACE_ENTRY, kCanonicalGru)
  MILLRACE_SHIPPED_VANILLA(MILLRACE_ENTRY)
  MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kLstm)
  MILLRACE_SHIPPED_MATRIX(MILLRACE_ENTRY, kGru)
  return report("registers and shared memory of shipped kernels");
}
