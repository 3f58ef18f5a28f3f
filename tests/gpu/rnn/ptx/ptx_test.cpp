// The shipped kernels' PTX, as nvcc left it in the objects, run by the interpreter: whole layers against double precision under three
// schedules; faults planted in the PTX are found.
//
//   ptx_test OBJECT...                     some layouts of every kernel, on every architecture in turn
//   ptx_test --long FILE OBJECT...         many more; a line of JSON per layout into FILE
//   ptx_test --clusters FILE OBJECT...     the same of kernels of clusters alone
//   ptx_test --faults OBJECT...            the planted faults alone, on every architecture
//   ptx_test --chain FILE OBJECT...        what a step of LSTM 1024 x 1 costs its owner's thread, by part
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <set>

#include "tests/gpu/rnn/checks.h"
#include "tests/gpu/rnn/layer_case.h"
#include "tests/gpu/rnn/ptx/machine.h"
#include "tests/gpu/rnn/ptx/micro_counts.h"
#include "tests/gpu/rnn/shipped_table.h"

namespace millrace::rnn::ptx {
namespace {

constexpr Limits kH200{132, 227 * 1024, 16};
constexpr std::pair<Schedule, const char*> kSchedules[] = {
    {Schedule::kInTurn, "in turn"}, {Schedule::kLate, "late"}, {Schedule::kRandom, "random"}};

double bound_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat: return 1e-5;
    case Precision::kHalf: return 4e-3;  // states are rounded in every step, here and not in the reference
    case Precision::kBFloat16: return 3e-2;
  }
  return 0;
}

// All modules of one architecture.
struct Architecture {
  std::vector<std::string> texts;
  std::vector<std::unique_ptr<Module>> modules;
  std::vector<const Module*> all() const {
    std::vector<const Module*> pointers;
    for (const auto& module : modules) pointers.push_back(module.get());
    return pointers;
  }
};
using Architectures = std::map<std::string, Architecture>;

// Whether one of them has what a kernel wants, and the next one in turn that has.
bool any_for(const Architectures& all, const KernelShape& shape) {
  return shape.cluster == 1 || std::any_of(all.begin(), all.end(), [](const auto& one) { return has_clusters(one.first); });
}
Architectures::const_iterator next_for(const Architectures& all, std::size_t& turn, const KernelShape& shape) {
  for (std::size_t tries = 0; tries <= all.size(); ++tries) {
    auto one = all.begin();
    std::advance(one, static_cast<long>(turn++ % all.size()));
    if (shape.cluster == 1 || has_clusters(one->first)) return one;
  }
  throw PtxError("no architecture has " + name_of(shape));
}

Architectures read(const std::vector<std::string>& objects) {
  Architectures found;
  std::map<std::string, int> opcodes;
  for (const std::string& object : objects)
    for (const std::string& text : texts_in(object)) {
      auto module = std::make_unique<Module>(text);
      for (const auto& [opcode, count] : module->opcodes()) opcodes[opcode] += count;
      Architecture& one = found[module->target()];
      one.texts.push_back(text);
      one.modules.push_back(std::move(module));
    }
  std::printf("%zu architectures, %zu opcodes\n", found.size(), opcodes.size());
  return found;
}

struct Candidate {
  RnnShape shape;
  Layout layout;
  bool backward;
};

// Layouts of one kernel over sizes that fill tiles and that do not, with one and several blocks, samples in one and several rounds.
std::vector<Candidate> candidates_of(const Kernel& kernel) {
  std::vector<Candidate> found;
  const KernelShape& k = kernel.shape;
  for (const auto& [hidden, batch] :
       {std::pair(40, 3), std::pair(33, 2), std::pair(64, 1), std::pair(24, 9), std::pair(72, 5), std::pair(16, 1)})
    for (const int threads : {256, 128})
      for (int slices = 1; slices <= threads / k.group; slices *= 2)
        for (const int multiprocessors : {132, 6}) {
          const Problem problem{k.recurrence, k.backward, k.precision, hidden, batch, 1};
          const std::optional<Layout> layout =
              layout_of(kernel, threads, slices, {multiprocessors, kH200.shared_bytes, kH200.clusters}, problem);
          if (!layout || layout->blocks(1) > 40) continue;
          RnnShape shape{.recurrence = k.recurrence, .inputs = 3, .hidden = hidden, .batch = batch, .steps = 3, .precision = k.precision};
          shape.training = k.backward || found.size() % 2 == 1;
          found.push_back({shape, *layout, k.backward});
        }
  return found;
}

// Some of them, spread over all.
std::vector<Candidate> spread(const std::vector<Candidate>& all, std::size_t most, std::size_t seed) {
  std::vector<Candidate> some;
  for (std::size_t i = 0; i < most && i < all.size(); ++i)
    some.push_back(all[(i * all.size() / std::min(most, all.size()) + seed * 7) % all.size()]);
  return some;
}

// Without `json` each of them under one schedule, in turn.
void layouts(const Architectures& architectures, std::size_t per_kernel, std::ostream* json, bool only_clusters = false) {
  std::set<std::string> kernels;
  int runs = 0;
  int taken = 0;
  std::size_t turn = 0;
  double worst[3] = {};
  std::size_t wanted = 0;
  for (std::size_t k = 0; k < shipped_table().size(); ++k) {
    Kernel kernel = shipped_table()[k].kernel;
    kernel.entry = &shipped_table()[k];
    if ((only_clusters && kernel.shape.cluster == 1) || !any_for(architectures, kernel.shape)) continue;
    ++wanted;
    for (const Candidate& one : spread(candidates_of(kernel), per_kernel, k)) {
      const auto architecture = next_for(architectures, turn, kernel.shape);
      PtxMachine machine(architecture->second.all(), kH200);
      const LayerCase layer(one.shape, 11 + static_cast<unsigned>(turn), true);
      const std::string name = architecture->first + ", " + name_of(one.layout) + ", hidden " + std::to_string(one.shape.hidden) +
                               ", batch " + std::to_string(one.shape.batch);
      Differences most;
      for (const auto& [schedule, how] : kSchedules) {
        if (json == nullptr && schedule != kSchedules[k % 3].first) continue;
        try {
          machine.set_schedule(schedule, static_cast<unsigned>(turn));
          const Differences found = layer.run(machine, [&](RnnLayer& l) { l.use_layout(one.backward, one.layout); });
          const double bound = bound_of(one.shape.precision);
          expect(found.output <= bound && found.gradients <= bound, name + ", " + how + ": outputs off by " +
                                                                        std::to_string(1e6 * found.output) + "e-6, gradients by " +
                                                                        std::to_string(1e6 * found.gradients) + "e-6");
          most.output = std::max(most.output, found.output);
          most.gradients = std::max(most.gradients, found.gradients);
          ++runs;
        } catch (const std::exception& error) {
          expect(false, name + ", " + how + ": " + error.what());
        }
      }
      worst[static_cast<int>(one.shape.precision)] = std::max({worst[static_cast<int>(one.shape.precision)], most.output, most.gradients});
      kernels.insert(name_of(kernel.shape));
      if (json != nullptr)
        *json << (taken > 0 ? ",\n" : "") << "    {\"case\": \"" << name << "\", \"schedules\": 3, \"output_error\": " << most.output
              << ", \"gradient_error\": " << most.gradients << ", \"instructions\": " << machine.instructions() << "}" << std::flush;
      ++taken;
    }
  }
  std::printf("%d layouts of %zu kernels, %d runs; worst error fp32 %.1e, fp16 %.1e, bf16 %.1e\n", taken, kernels.size(), runs, worst[0],
              worst[1], worst[2]);
  expect(kernels.size() == wanted, "every shipped kernel ran");
}

// Layers with everything around them under a schedule: no layout fits, so that single steps run, a projection, both directions.
void around(const Architectures& architectures) {
  auto architecture = architectures.begin();
  for (const Recurrence recurrence : {Recurrence::kLstm, Recurrence::kGru, Recurrence::kCanonicalGru, Recurrence::kTanh, Recurrence::kRelu})
    for (const Precision precision : {Precision::kFloat, Precision::kHalf, Precision::kBFloat16}) {
      PtxMachine machine(architecture->second.all(), {1, 64});
      machine.set_schedule(Schedule::kLate, 3, true);
      const RnnShape shape{.recurrence = recurrence,
                           .inputs = 3,
                           .hidden = 12,
                           .bidirectional = precision == Precision::kFloat,
                           .batch = 2,
                           .steps = 2,
                           .precision = precision,
                           .training = true};
      const Differences found = LayerCase(shape, 5, true).run(machine);
      expect(!found.persistent_forward && found.output <= bound_of(precision) && found.gradients <= bound_of(precision),
             architecture->first + ", single steps: " + std::to_string(1e6 * found.output) + "e-6, " +
                 std::to_string(1e6 * found.gradients) + "e-6");
      if (++architecture == architectures.end()) architecture = architectures.begin();
    }
  for (const auto& [target, one] : architectures) {
    PtxMachine machine(one.all(), kH200);
    machine.set_schedule(Schedule::kRandom, 5, true);
    const RnnShape shape{.inputs = 3, .hidden = 20, .projection = 7, .bidirectional = true, .batch = 2, .steps = 3, .training = true};
    const Differences found = LayerCase(shape, 5).run(machine);
    expect(found.persistent_forward && found.output <= 1e-5 && found.gradients <= 1e-5, target + ", with a projection and both directions");
    // A bias that is spread over rows before a library's product adds to it, and formats there and back.
    std::vector<float> result(2 * 5, NAN), bias = {1, 2, 3};
    auto* const on_machine = static_cast<float*>(machine.allocate(result.size() * sizeof(float) + bias.size() * sizeof(float)));
    machine.copy_to(on_machine + result.size(), bias.data(), bias.size() * sizeof(float));
    MatrixJob job;
    job.result = on_machine;
    job.result_row = 5;
    job.bias = on_machine + result.size();
    job.rows = 2;
    job.columns = 3;
    machine.spread_bias(job);
    expect(on_machine[0] == 1 && on_machine[2] == 3 && on_machine[5] == 1 && on_machine[7] == 3, target + ", a bias over rows");
  }
}

// What a step costs beyond its products: every 16 bytes of state are asked for once by every block, and nothing is divided. From runs
// of two lengths, so that what comes before the steps drops out. One kernel in `every`.
void design_counts(const Architectures& architectures, std::size_t every) {
  int counted_layouts = 0;
  std::size_t turn = 0;
  for (std::size_t k = 0; k < shipped_table().size(); k += every) {
    const ShippedKernel& shipped = shipped_table()[k];
    Kernel kernel = shipped.kernel;
    kernel.entry = &shipped;
    const KernelShape& s = kernel.shape;
    if (!any_for(architectures, s)) continue;
    const auto architecture = next_for(architectures, turn, s);
    constexpr int kHidden = 40, kBatch = 3, kFew = 2, kMany = 3;
    const std::optional<Layout> layout = layout_of(kernel, 256, 2, kH200, {s.recurrence, s.backward, s.precision, kHidden, kBatch, 1});
    if (!layout) continue;
    Statistics found[2];
    for (const int steps : {kFew, kMany}) {
      const RnnShape shape{.recurrence = s.recurrence,
                           .inputs = 1,
                           .hidden = kHidden,
                           .batch = kBatch,
                           .steps = steps,
                           .precision = s.precision,
                           .training = s.backward};
      PtxMachine machine(architecture->second.all(), kH200);
      LayerCase(shape, 3).run(machine, [&](RnnLayer& l) { l.use_layout(s.backward, layout); });
      found[steps == kMany ? 1 : 0] = machine.statistics();
    }
    const std::string name = architecture->first + ", " + name_of(*layout);
    expect(found[1].divisions == found[0].divisions,
           name + ": " + std::to_string(found[1].divisions - found[0].divisions) + " divisions in the steps");
    ++counted_layouts;
    if (s.width > 0) {
      // One exchange: every block reads the sums of all tiles, the update gates and the input's sums of all units, four at a time, and
      // two sums of the input per unit of its own; each once, behind flags that lie where they lay in the step before.
      const long long loads = 1LL * (kMany - kFew) * kBatch * (layout->unit_tiles * (layout->unit_tiles + 2) * kHidden / 4 + 2 * kHidden);
      const auto counted = static_cast<long long>(found[1].weak_loads - found[0].weak_loads);
      expect(counted == loads && found[1].different_loads == found[0].different_loads,
             name + ": " + std::to_string(counted) + " loads, and the design has " + std::to_string(loads));
      continue;
    }
    // Every block of a sample tile, or all blocks of a cluster together, gathers all columns of its samples; a GRU's owners read their
    // own state beside.
    const bool canonical =
        s.recurrence == Recurrence::kCanonicalGru;  // gathers twice: states and reset states, two gates' errors and one's
    const int columns = s.backward ? gates_of(s.recurrence) * kHidden : canonical ? 2 * kHidden : kHidden;
    const long long own = s.recurrence == Recurrence::kGru || canonical ? kHidden * kBatch : 0;
    const long long loads = (kMany - kFew) * (1LL * layout->unit_tiles / s.cluster * kBatch * columns * bytes_of(s.precision) / 16 + own);
    const auto counted = static_cast<long long>(found[1].different_loads - found[0].different_loads);
    expect(counted == loads, name + ": " + std::to_string(counted) + " loads, and the design has " + std::to_string(loads));
  }
  std::printf("%d layouts of %zu kernels: loads as designed, no divisions in the steps\n", counted_layouts, shipped_table().size());
}

// What an owner's thread does in a step of LSTM 1024 x 1, by part, as lines of JSON: PTX executed, without polls in vain.
void chains(const Architectures& architectures, std::ostream& json) {
  const char* between = "";
  json << "{\n  \"what\": \"PTX instructions that the thread of an LSTM's unit executes per step, hidden 1024, batch 1, nothing waited "
          "for\",\n"
       << "  \"steps\": [\n";
  for (const auto& [target, architecture] : architectures)
    for (const KernelShape& shape :
         {KernelShape{Recurrence::kLstm, false, Precision::kFloat, false, 4, 32, 32, 1},
          KernelShape{Recurrence::kLstm, false, Precision::kFloat, false, 4, 32, 4, 1, 0, 0, kBlocksOfCluster},
          KernelShape{Recurrence::kLstm, false, Precision::kBFloat16, true, 2, 8, 1, 1},
          KernelShape{Recurrence::kLstm, false, Precision::kBFloat16, true, 2, 8, 1, 1, 0, 0, kBlocksOfCluster}}) {
      if (shape.cluster > 1 && !has_clusters(target)) continue;
      PtxMachine machine(architecture.all(), kH200);
      const auto kernel =
          std::find_if(machine.kernels().begin(), machine.kernels().end(), [&](const Kernel& one) { return one.shape == shape; });
      const std::optional<Layout> layout = layout_of(*kernel, 256, shape.matrix_units && shape.cluster == 1 ? 8 : 1, kH200,
                                                     {shape.recurrence, false, shape.precision, 1024, 1, 1});
      if (!layout) throw PtxError("no layout of " + name_of(shape));
      Chain found[2][2];
      for (const int many : {0, 1}) {
        RnnLayer layer(machine, {.inputs = 1, .hidden = 1024, .batch = 1, .steps = many != 0 ? 4 : 2, .precision = shape.precision},
                       Runner());
        layer.use_layout(false, layout);
        layer.set_patience(0);
        layer.prepare_recurrence(false);
        layer.run_recurrence(false);
        for (const int part : {0, 1}) found[many][part] = machine.statistics().chain[part];
      }
      for (const int part : {0, 1}) {
        const auto per_step = [&](long long Chain::*of) { return (found[1][part].*of - found[0][part].*of) / 2; };
        json << between << "    {\"architecture\": \"" << target << "\", \"layout\": \"" << name_of(*layout) << "\", \"part\": \""
             << (part == 0 ? "finish a unit and gather" : "multiply and sum") << "\", \"instructions\": " << per_step(&Chain::instructions)
             << ", \"integer_divisions\": " << per_step(&Chain::integer_divisions)
             << ", \"exact_divisions\": " << per_step(&Chain::exact_divisions) << ", \"products\": " << per_step(&Chain::products)
             << ", \"shared_accesses\": " << per_step(&Chain::shared) << ", \"global_accesses\": " << per_step(&Chain::global)
             << ", \"exchanges\": " << per_step(&Chain::exchanges) << "}" << std::flush;
        between = ",\n";
      }
    }
  json << "\n  ]\n}\n";
}

// --- Planted faults.

std::string name_of_entry(const ShippedKernel& kernel) {
  return (kernel.kernel.shape.cluster > 1 ? "clustered_kernel<" : "persistent_kernel<") + kernel.type + ">(";
}

// Replaces the n-th `what` inside the entry whose name holds `kernel`; false when there are not so many.
bool replace_in(std::string& text, const std::string& kernel, const std::string& what, const std::string& by, int n) {
  std::size_t at = std::string::npos;
  for (std::size_t entry = text.find(".entry "); entry != std::string::npos; entry = text.find(".entry ", entry + 1))
    if (text.compare(entry + 7, text.find('(', entry) - entry - 7, kernel) == 0) at = entry;
  if (at == std::string::npos) throw PtxError("no entry " + kernel);
  std::size_t end = text.find(".entry ", at + 7);
  for (int i = 0; i <= n; ++i) {
    at = text.find(what, at + 1);
    if (at == std::string::npos || at >= end) return false;
  }
  text.replace(at, what.size(), by);
  return true;
}

// Whether one of the schedules finds that something is wrong, and what.
bool is_found(const std::vector<const Module*>& modules, const LayerCase& layer, const Layout& layout, bool backward, std::string& what) {
  for (const auto& [schedule, how] : kSchedules)
    for (const unsigned seed : {1U, 2U}) {
      if (seed > 1 && schedule != Schedule::kRandom) continue;
      PtxMachine machine(modules, kH200);
      machine.set_schedule(schedule, seed);
      try {
        const Differences off = layer.run(machine, [&](RnnLayer& l) {
          l.use_layout(backward, layout);
          l.set_patience(2'000'000);
        });
        if (off.output <= bound_of(layer.shape().precision) && off.gradients <= bound_of(layer.shape().precision)) continue;
        what = std::string(how) + ": off by " + std::to_string(off.output) + " and " + std::to_string(off.gradients);
      } catch (const std::exception& error) {
        what = std::string(how) + ": " + error.what();
      }
      return true;
    }
  return false;
}

struct Fault {
  const char* name;
  KernelShape shape;
  const char* what;
  const char* by;
  int first;           // place that is tried ...
  int most;            // ... and the last one
  bool anywhere;       // enough to find it at one of them: at others it may do no harm
  bool again = false;  // as one before it, in another kernel: only where all are asked for
};

// Those of a kind on the architecture that comes first, or all on all.
void faults(const Architectures& architectures, bool everywhere) {
  const KernelShape lstm{Recurrence::kLstm, false, Precision::kFloat, false, 4, 32, 32, 1};
  const KernelShape back{Recurrence::kLstm, true, Precision::kFloat, false, 8, 8, 8, 1};
  const KernelShape gru{Recurrence::kCanonicalGru, false, Precision::kFloat, false, 4, 8, 32, 1, 16, 1};
  const KernelShape half{Recurrence::kLstm, false, Precision::kHalf, true, 2, 8, 1, 1};
  const KernelShape clustered{Recurrence::kLstm, false, Precision::kFloat, false, 4, 32, 4, 1, 0, 0, kBlocksOfCluster};
  const Fault planted[] = {
      {"a missing barrier", lstm, "bar.sync", "// bar.sync", 0, 2, false},
      {"a missing barrier", back, "bar.sync", "// bar.sync", 1, 2, false, true},  // the first step there starts from zeros
      {"a missing barrier", half, "bar.sync", "// bar.sync", 0, 2, false, true},
      {"a flag before its data", gru, "st.release.gpu", "st.relaxed.gpu", 0, 0, false},
      {"data read before their flag", gru, "ld.acquire.gpu", "ld.relaxed.gpu", 0, 1, true},
      {"a state that is not published", lstm, "st.relaxed.gpu.global.u32", "st.global.u32", 0, 20, true},
      {"a wrong lane", lstm, "shfl.sync.bfly", "shfl.sync.idx", 0, 2, false},
      {"a wrong lane", back, "shfl.sync.bfly", "shfl.sync.idx", 0, 2, false, true},
      {"a missing barrier", clustered, "bar.sync", "// bar.sync", 0, 0, false},  // the other one: races.cpp
      {"sums read before all are there", clustered, ", 1, 0, ended", ", 1, 1, ended", 0, 0, false},
      {"a wrong rank", clustered, "%cluster_ctarank", "%ctaid.x", 0, 0, false},
      {"elements of another format", half, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
       "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 0, 0, false}};
  for (const auto& [target, architecture] : architectures) {
    if (!everywhere && target != architectures.begin()->first) continue;
    for (const Fault& fault : planted) {
      if ((fault.again && !everywhere) || (fault.shape.cluster > 1 && !has_clusters(target))) continue;
      const ShippedKernel* kernel = nullptr;
      for (const ShippedKernel& one : shipped_table())
        if (one.kernel.shape == fault.shape) kernel = &one;
      Kernel with_entry = kernel->kernel;
      with_entry.entry = kernel;
      const KernelShape& k = fault.shape;
      const RnnShape shape{
          .recurrence = k.recurrence, .inputs = 2, .hidden = 40, .batch = 2, .steps = 3, .precision = k.precision, .training = k.backward};
      const LayerCase layer(shape, 3, true);
      const std::optional<Layout> layout = layout_of(with_entry, 256, 2, kH200, {k.recurrence, k.backward, k.precision, 40, 2, 1});
      expect(layout && layout->blocks(1) > 1, std::string(fault.name) + ": a layout of several blocks");
      int places = 0;
      bool found = false;
      for (int n = fault.first; n <= fault.most && !(found && fault.anywhere); ++n) {
        std::vector<std::unique_ptr<Module>> changed;
        std::vector<const Module*> modules;
        bool there = false;
        for (std::size_t m = 0; m < architecture.texts.size(); ++m) {
          const Entry* const entry = architecture.modules[m]->entry(name_of_entry(*kernel));
          modules.push_back(architecture.modules[m].get());
          if (entry == nullptr) continue;
          std::string text = architecture.texts[m];
          there = replace_in(text, entry->name, fault.what, fault.by, n);
          changed.push_back(std::make_unique<Module>(text));
          modules.back() = changed.back().get();
        }
        if (!there) break;
        ++places;
        std::string what;
        const bool here = is_found(modules, layer, *layout, k.backward, what);
        expect(here || fault.anywhere, target + ", " + name_of(k) + ", " + fault.name + ", place " + std::to_string(n) + ": not found");
        if (here && !found) std::printf("%s, %s: found, %s\n", target.c_str(), fault.name, what.c_str());
        found = found || here;
      }
      expect(places > 0 && found,
             target + ", " + fault.name + ": " + std::to_string(places) + " places for it in " + name_of(k) + ", not found");
    }
  }
  // What is not known is an error, and so is a launch that reserves too little.
  std::string text = architectures.begin()->second.texts.front();
  const std::size_t at = text.find("bar.sync");
  text.replace(at, 8, "bar.pace");
  try {
    const Module module(text);
    expect(false, "an unknown opcode must be an error");
  } catch (const PtxError& error) {
    expect(std::strstr(error.what(), "bar.pace") != nullptr, error.what());
  }
  PtxMachine machine(architectures.begin()->second.all(), kH200);
  const RnnShape shape{.inputs = 2, .hidden = 40, .batch = 2, .steps = 3};
  try {
    LayerCase(shape, 3).run(machine, [&](RnnLayer& layer) {
      std::optional<Layout> layout = layer.layout(false);
      layout->shared_bytes = 256;
      layer.use_layout(false, layout);
    });
    expect(false, "an access beyond shared memory must be an error");
  } catch (const GridError& error) {
    expect(std::strstr(error.what(), "outside of what is there") != nullptr, error.what());
  }
  // A block that never comes is reported as designed.
  machine.set_missing_blocks(1);
  try {
    LayerCase(shape, 3).run(machine, [&](RnnLayer& layer) { layer.set_patience(1'000'000); });
    expect(false, "a missing block must be reported");
  } catch (const RnnError& error) {
    expect(error.kind() == RnnFailure::kHungExchange, error.what());
  }
}

}  // namespace
}  // namespace millrace::rnn::ptx

int main(int count, char** arguments) {
  using namespace millrace::rnn;
  using namespace millrace::rnn::ptx;
  const bool only_clusters = count > 2 && std::strcmp(arguments[1], "--clusters") == 0;
  const bool all = only_clusters || (count > 2 && std::strcmp(arguments[1], "--long") == 0);
  const bool counts = count > 2 && std::strcmp(arguments[1], "--chain") == 0;
  const bool only_faults = count > 2 && std::strcmp(arguments[1], "--faults") == 0;
  const std::vector<std::string> objects(arguments + (all || counts ? 3 : only_faults ? 2 : 1), arguments + count);
  const auto began = std::chrono::steady_clock::now();
  try {
    const Architectures architectures = read(objects);
    if (architectures.empty()) return skip("no CUDA compiler: there is no PTX to run");
    if (counts) {
      std::ofstream json(arguments[2]);
      chains(architectures, json);
      expect(static_cast<bool>(json), std::string(arguments[2]) + " is written");
    } else if (only_faults) {
      faults(architectures, true);
    } else if (all) {
      std::ofstream json(arguments[2]);
      json << "{\n  \"what\": \"every shipped kernel's PTX" << (only_clusters ? ", of those for clusters," : "")
           << " under three schedules against double precision\",\n  \"architectures\": " << architectures.size() << ",\n  \"cases\": [\n";
      layouts(architectures, 6, &json, only_clusters);
      json << "\n  ]\n}\n" << std::flush;
      if (!only_clusters) {
        design_counts(architectures, 1);
        faults(architectures, true);
      }
    } else {
      layouts(architectures, 1, nullptr);
      around(architectures);
      design_counts(architectures, 3);
      for (const auto& [target, architecture] : architectures) check_micro_benchmarks(architecture.all());
      faults(architectures, false);
    }
  } catch (const std::exception& error) {
    expect(false, error.what());
  }
  std::printf("%.1f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  return report("the shipped kernels' PTX");
}
