// The choice of layouts: the clock overrules the model among the first few, the file remembers, survives being torn and
// being written by several at once; and constants come out of timings as they went in.
#include "gpu/rnn/selection.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "gpu/rnn/architectures.h"
#include "gpu/rnn/calibration.h"
#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

std::string file_in_temporary_folder() {
  return (std::filesystem::temp_directory_path() / ("millrace_rnn_layouts_" + std::to_string(getpid()) + ".txt")).string();
}

void choosing() {
  const std::string path = file_in_temporary_folder();
  std::filesystem::remove(path);
  SelectionFile file(path);
  const std::unique_ptr<Machine> machine = emulated_machine({.multiprocessors = 40});
  const Problem problem{Recurrence::kLstm, false, Precision::kFloat, 48, 4, 1};
  const std::vector<Layout> ranked = ranked_layouts(machine->kernels(), machine->limits(), problem, titan_v());
  expect(ranked.size() >= 5, "several layouts");
  for (std::size_t i = 1; i < ranked.size(); ++i) expect(ranked[i - 1].cost <= ranked[i].cost, "cheapest first");
  for (const Layout& layout : ranked) {
    expect(layout.blocks(1) <= 40, name_of(layout) + ": blocks");
    expect(layout.unit_tiles * layout.tile_width >= 48 && (layout.unit_tiles - 1) * layout.tile_width < 48, name_of(layout) + ": units");
    expect(layout.rounds * layout.sample_tiles * height_of(layout.kernel.shape) >= 4, name_of(layout) + ": samples");
    expect(layout.tile_width * height_of(layout.kernel.shape) <= layout.threads, name_of(layout) + ": owners");
  }
  int measured = 0;
  const auto third_is_fastest = [&](const Layout& layout) {
    ++measured;
    return layout.cost == ranked[2].cost ? 1e-6 : 2e-6;
  };
  const std::optional<Layout> best = choose_layout(*machine, problem, titan_v(), 4, &file, third_is_fastest);
  expect(best && best->cost == ranked[2].cost && measured == 4, "the fastest of four is chosen");
  const std::optional<Layout> again = choose_layout(*machine, problem, titan_v(), 4, &file, third_is_fastest);
  expect(again && name_of(*again) == name_of(*best) && measured == 4, "and remembered");
  // A measurement that fails is no choice; another GPU's choice is not this one's.
  const std::optional<Layout> other = choose_layout(*machine, problem, titan_v(), 3, nullptr, [&](const Layout& layout) -> double {
    if (layout.cost != ranked[1].cost) throw RnnError(RnnFailure::kHungExchange, "in a test");
    return 1;
  });
  expect(other && other->cost == ranked[1].cost, "a layout that fails is passed over");
  expect(!file.find("another GPU", problem), "per GPU");
  expect(!choose_layout(*machine, {Recurrence::kLstm, false, Precision::kFloat, 100000, 4, 1}, titan_v(), 3, &file, third_is_fastest),
         "what fits nowhere has no layout");

  // Torn anywhere: never a wrong choice, and the next store repairs it.
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const std::string whole = text.str();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, length);
    const std::optional<Choice> found = file.find(machine->name(), problem);
    expect(!found || (length + 1 == whole.size() && found->shape == best->kernel.shape), "torn after " + std::to_string(length) + " bytes");
  }
  expect(file.store(machine->name(), problem, {best->kernel.shape, best->threads, best->slices, 1}) && file.find(machine->name(), problem),
         "a torn file is written anew");
  expect(!SelectionFile("/nowhere/at/all").store("x", problem, {}), "a folder that is not there");

  // Several writers: nobody's choice is lost.
  constexpr int kWriters = 4, kEach = 8;
  for (int writer = 0; writer < kWriters; ++writer)
    if (fork() == 0) {
      for (int i = 0; i < kEach; ++i) {
        Problem one = problem;
        one.hidden = 1000 + writer * kEach + i;
        file.store("shared", one, {best->kernel.shape, 128, 1, 1.0 * one.hidden});
      }
      _exit(0);
    }
  for (int writer = 0; writer < kWriters; ++writer) wait(nullptr);
  int kept = 0;
  for (int i = 0; i < kWriters * kEach; ++i) {
    Problem one = problem;
    one.hidden = 1000 + i;
    const std::optional<Choice> found = file.find("shared", one);
    kept += found && found->seconds == 1000 + i ? 1 : 0;
  }
  expect(kept == kWriters * kEach, std::to_string(kept) + " of 32 choices of four writers");
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".lock");
}

class NamedLibrary : public Library {
 public:
  explicit NamedLibrary(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<std::string> algorithms() const override { return {"plain", "swift", "stubborn"}; }
  std::unique_ptr<LibraryLayer> prepare(const std::string&, const RnnShape&) override { return nullptr; }

 private:
  std::string name_;
};

// Our kernels against a library: the faster one is chosen and remembered with the reason, beside the layouts.
void who_runs() {
  const std::string path = file_in_temporary_folder();
  std::filesystem::remove(path);
  SelectionFile file(path);
  NamedLibrary library("library 1");
  EmulatedGpu with_library;
  with_library.dnn_library = &library;
  const std::unique_ptr<Machine> machine = emulated_machine(with_library);
  RnnShape shape{.recurrence = Recurrence::kGru, .inputs = 8, .hidden = 64, .batch = 4, .steps = 50, .training = true};
  int measured = 0;
  double own = 2e-3;
  double swift = 1.5e-3;
  const auto own_seconds = [&] {
    ++measured;
    if (own < 0) throw RnnError(RnnFailure::kHungExchange, "in a test");
    return own;
  };
  const auto dnn_library_seconds = [&](const std::string& algorithm) {
    ++measured;
    if (algorithm == "stubborn") throw RnnError(RnnFailure::kUnsupportedSize, "does not take it");
    return algorithm == "plain" ? 5e-3 : swift;
  };
  const auto choose = [&](Machine& on) { return choose_runner(on, shape, &file, own_seconds, dnn_library_seconds); };

  Runner runner = choose(*machine);
  expect(runner.algorithm == "swift" && measured == 4, name_of(runner) + " after " + std::to_string(measured) + " measurements");
  expect(runner.reason == "measured: 1500.0 us for library 1's \"swift\", 2000.0 us for ours", runner.reason);
  const Problem problem{Recurrence::kGru, false, Precision::kFloat, 64, 4, 1};
  expect(file.store(machine->name(), problem, {{Recurrence::kGru, false, Precision::kFloat, false, 2, 4, 8, 2}, 128, 1, 1e-3}),
         "a layout beside");
  const Runner again = choose(*machine);
  expect(measured == 4 && name_of(again) == name_of(runner) && again.own_seconds == 2e-3 && again.dnn_library_seconds == 1.5e-3,
         "remembered as it was: " + name_of(again));
  expect(file.find(machine->name(), problem).has_value(), "layouts and runners share the file");

  // Another shape, another version of the library and another GPU are measured anew.
  shape.steps = 51;
  swift = 3e-3;
  runner = choose(*machine);
  expect(!runner.is_library() && measured == 8 && runner.dnn_library_seconds == 3e-3, name_of(runner));
  expect(runner.reason == "measured: 2000.0 us for ours, 3000.0 us for library 1's best, \"swift\"", runner.reason);
  expect(!choose(*machine).is_library() && measured == 8, "our own are remembered too");
  NamedLibrary newer("library 2");
  with_library.dnn_library = &newer;
  choose(*emulated_machine(with_library));
  expect(measured == 12, "another version is measured");
  expect(!file.find_runner("another GPU", "library 1", shape), "per GPU");

  // What cannot be measured is not chosen.
  shape.steps = 52;
  own = -1;
  runner = choose(*machine);
  expect(
      runner.algorithm == "swift" && runner.reason.find("ours cannot run it; our kernels: hung exchange: in a test") != std::string::npos,
      name_of(runner));
  with_library.dnn_library = nullptr;
  runner = choose(*emulated_machine(with_library));
  expect(!runner.is_library() && runner.reason == "there is no library to compare with", name_of(runner));

  // Torn anywhere: never another choice.
  shape.steps = 50;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const std::string whole = text.str();
  int found = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path, std::ios::trunc) << whole.substr(0, length);
    if (const std::optional<Runner> torn = file.find_runner(machine->name(), "library 1", shape)) {
      ++found;
      expect(torn->algorithm == "swift" && torn->own_seconds == 2e-3 && torn->reason == again.reason,
             "torn after " + std::to_string(length));
    }
  }
  expect(found > 0, "whole lines of a torn file are read");
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".lock");
}

// Timings made from known constants give those constants back.
void fitting(const Gpu& truth, const std::string& of) {
  Timings t;
  t.multiprocessors = 132;
  t.registers = 65536;
  t.multiply_adds = 1000;
  t.exchanges = 500;
  t.cycles_per_time = 1.7;
  const double multiply_add = truth.multiply_add_latency / t.cycles_per_time;
  for (const int warps : {1, 2, 4, 8})
    for (const int outputs : {1, 2, 4, 8}) {
      const double load = warps * outputs / truth.products_saturate;
      const double slowdown = load > 1
                                  ? truth.saturated_slowdown * load
                                  : std::pow(truth.warp_slowdown, std::log2(warps)) * std::pow(truth.reuse_slowdown, std::log2(outputs));
      t.products.push_back({warps, outputs, t.multiply_adds * multiply_add * slowdown});
      t.reductions.push_back(
          {warps, outputs, t.exchanges * truth.shuffle * multiply_add * std::pow(truth.reduction_slowdown, warps * outputs - 1)});
    }
  t.l2_bytes = 1e6;
  t.l2_time = t.l2_bytes / truth.l2_bytes_per_cycle / t.cycles_per_time;
  t.l2_latency_time = 2 * truth.l2_latency * multiply_add;
  const Gpu fitted = fit(t, titan_v());
  const auto close = [&](double got, double expected, const char* what) {
    expect(std::fabs(got - expected) < 1e-9 * expected,
           of + ", " + what + ": " + std::to_string(got) + ", not " + std::to_string(expected));
  };
  close(fitted.warp_slowdown, truth.warp_slowdown, "slowdown of warps");
  close(fitted.reuse_slowdown, truth.reuse_slowdown, "slowdown of outputs");
  close(fitted.products_saturate, truth.products_saturate, "load at which products saturate");
  close(fitted.saturated_slowdown, truth.saturated_slowdown, "saturated slowdown");
  close(fitted.reduction_slowdown, truth.reduction_slowdown, "slowdown of reductions");
  close(fitted.shuffle, truth.shuffle, "exchange");
  close(fitted.multiply_add_latency, truth.multiply_add_latency, "latency of a multiply-add");
  close(fitted.l2_bytes_per_cycle, truth.l2_bytes_per_cycle, "L2 bandwidth");
  close(fitted.l2_latency, truth.l2_latency, "L2 latency");
  expect(fitted.multiprocessors == 132, "multiprocessors");
  t.products.erase(t.products.begin());
  try {
    fit(t, titan_v());
    expect(false, "timings without a baseline must be refused");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()).find("one warp and one output") != std::string::npos, error.what());
  }
}

// Every constant says where it is from; a newer GPU takes what the one before it has; fitted rows say all that was fitted.
void origins() {
  int last = 0;
  for (const Architecture& one : architectures()) {
    expect(one.capability > last && !one.constants.empty(), "compute capability " + std::to_string(one.capability) + " in order");
    last = one.capability;
    for (const Constant& constant : one.constants) {
      expect(constant.value > 0 && *constant.note != '\0' && !name_of(constant.basis).empty(), std::string(constant.name) + ": its origin");
      expect(constants_of(one.capability, 1).*constant.member == constant.value, std::string(constant.name) + " is taken");
    }
  }
  expect(constants_beside_titan_v(70).empty() && constants_of(70, 80).l2_latency == titan_v().l2_latency, "Titan V is Titan V");
  expect(constants_beside_titan_v(103).data() == constants_beside_titan_v(100).data(), "10.3 has what 10.0 has");
  expect(constants_of(90, 132).multiprocessors == 132, "multiprocessors are the GPU's");
  const std::string rows = rows_of(constants_of(90, 132), "a GPU");
  for (const Constant& one : constants_beside_titan_v(90))
    if (titan_v().*one.member > 1)  // what Titan V's model does not know is not fitted either
      expect(rows.find("{&Gpu::" + std::string(one.name) + ", \"" + one.name + "\", ") != std::string::npos, rows);
  expect(rows.find("{&Gpu::l2_latency, \"l2_latency\", 32.875, Basis::kFitted, \"a GPU\"},\n") != std::string::npos, rows);
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  choosing();
  who_runs();
  Gpu other = titan_v();
  other.warp_slowdown = 1.4;
  other.reuse_slowdown = 1.21;
  other.saturated_slowdown = 3.9;
  other.reduction_slowdown = 1.05;
  other.shuffle = 6;
  other.multiply_add_latency = 4.25;
  other.l2_bytes_per_cycle = 51;
  other.l2_latency = 33;
  fitting(other, "constants of no GPU");
  for (const Architecture& one : architectures()) fitting(constants_of(one.capability, 132), std::to_string(one.capability));
  origins();
  return report("choice of layouts");
}
