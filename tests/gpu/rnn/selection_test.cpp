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

// Timings made from known constants give those constants back.
void fitting() {
  Gpu truth = titan_v();
  truth.warp_slowdown = 1.4;
  truth.reuse_slowdown = 1.21;
  truth.saturated_slowdown = 3.9;
  truth.reduction_slowdown = 1.05;
  truth.shuffle = 6;
  truth.multiply_add_latency = 4.25;
  truth.l2_bytes_per_cycle = 51;
  truth.l2_latency = 33;
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
  const auto close = [](double got, double expected, const char* what) {
    expect(std::fabs(got - expected) < 1e-9 * expected,
           std::string(what) + ": " + std::to_string(got) + ", not " + std::to_string(expected));
  };
  close(fitted.warp_slowdown, truth.warp_slowdown, "slowdown of warps");
  close(fitted.reuse_slowdown, truth.reuse_slowdown, "slowdown of outputs");
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

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  choosing();
  fitting();
  return report("choice of layouts");
}
