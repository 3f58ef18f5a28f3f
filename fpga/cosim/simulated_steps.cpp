#include "fpga/cosim/simulated_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/plan/parts.h"
#include "fpga/cosim/harness/steps_library.h"
#include "fpga/cosim/shared_library.h"
#include "fpga/pe_chain/rtl/pass_words.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {

namespace {

struct StepsLibrary {
  explicit StepsLibrary(const std::filesystem::path& path) : library(path) {
    library.find(open, "millrace_steps_open");
    library.find(close, "millrace_steps_close");
    library.find(load, "millrace_steps_load");
    library.find(load_biases, "millrace_steps_load_biases");
    library.find(load_state, "millrace_steps_load_state");
    library.find(run, "millrace_steps_run");
  }

  SharedLibrary library;
  decltype(&millrace_steps_open) open = nullptr;
  decltype(&millrace_steps_close) close = nullptr;
  decltype(&millrace_steps_load) load = nullptr;
  decltype(&millrace_steps_load_biases) load_biases = nullptr;
  decltype(&millrace_steps_load_state) load_state = nullptr;
  decltype(&millrace_steps_run) run = nullptr;
};

// Memories grow by doubling, so that layers share engines.
PeChainHardware small_engine(CellKind cell, int64_t units) {
  PeChainHardware hardware{.cell = cell, .chains = 2, .samples = 1};
  const int64_t elements = hardware.chains * hardware.per_chain;
  const auto power = [](int64_t least) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least))); };
  hardware.words = std::max(hardware.words, power((units + elements - 1) / elements * units));
  hardware.state_words = std::max(hardware.state_words, power((units + hardware.chains - 1) / hardware.chains + hardware.per_chain));
  return hardware;
}

std::string text_of(const PeChainHardware& h) {
  return fmt::format("pe_chain, {} units of {} x {} elements", gates_of(h.cell), h.chains, h.per_chain);
}

void refuse_what_is_not_built(const StepsOfBoard& of) {
  if (of.layer.projection > 0)
    fail(ErrorCode::kUnavailable, "the RTL of chained elements does not project, and a layer of {} units does, to {}; use emulated-fpga",
         of.layer.hidden, of.layer.projection);
  if (!of.whole())
    fail(ErrorCode::kUnavailable,
         "several boards share the steps of a layer of {} units, which the RTL of chained elements does not do; use emulated-fpga",
         of.layer.hidden);
}

}  // namespace

bool makes_steps(const Plan& plan, const Graph& graph, int64_t device) {
  return loads_every_pass(plan, device) && std::ranges::any_of(plan.shards, [&](const Shard& shard) {
           return shard.device == device && shard.blocks.empty() &&
                  std::holds_alternative<Recurrent>(graph.node(graph.index_of(shard.layer)).layer.operation);
         });
}

std::vector<PlannedSteps> planned_steps(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth) {
  std::vector<PlannedSteps> planned;
  if (!makes_steps(plan, graph, device)) return planned;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    const auto* cell = std::get_if<Recurrent>(&node.layer.operation);
    if (shard.device != device || cell == nullptr || !shard.blocks.empty()) continue;
    const auto refuse = [&](const char* what) {
      fail(ErrorCode::kUnavailable, "layer \"{}\": {}, which the RTL of chained elements does not do; compute it on emulated-fpga",
           shard.layer, what);
    };
    if (!shard.units.empty()) refuse("several boards share its steps");
    if (cell->projection > 0) refuse("it projects its outputs");
    const PlannedSteps steps{small_engine(cell->cell, cell->hidden), gate_forms_of(*cell, smooth)};
    if (std::ranges::find(planned, steps) == planned.end()) planned.push_back(steps);
  }
  return planned;
}

EngineLibrary library_of(const PlannedSteps& planned) {
  const PeChainHardware& hardware = planned.hardware;
  const WordParts parts = word_parts_of(hardware.cell);
  const bool tables = planned.forms.sigmoid == SigmoidForm::kTable || planned.forms.tanh == TanhForm::kTable;
  return {.name = text_of(hardware),
          .top = "pe_chain_engine",
          .parameters = parameters_of(hardware, planned.forms),
          .defines = {{"MILLRACE_ENGINE_CHAINS", hardware.chains},
                      {"MILLRACE_ENGINE_GATES", parts.gates},
                      {"MILLRACE_ENGINE_BIASES", parts.biases},
                      {"MILLRACE_ENGINE_IN_PARTS", parts.in()},
                      {"MILLRACE_ENGINE_OUT_PARTS", parts.out()}},
          .modules = pe_chain_engine_modules(),
          .harness = steps_harness_sources(),
          .image_parameter = tables ? "TABLE" : "",
          .image_file = kGateTableFile,
          .image = tables ? gate_table_text() : ""};
}

// An engine, built when it is first needed, and what its memories hold.
struct SimulatedSteps::Served {
  Served(PlannedSteps of, const EngineBuildOptions& build)
      : planned(of), library(build_library(library_of(of), build).engine_file), engine(library.open()) {}
  ~Served() { library.close(engine); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void load(const FixedRecurrent& layer, const PassSettings& settings, bool back) {
    if (layer.hidden_weight != weights || back != transposed) {
      for (const WeightBeat& beat : weight_beats(planned.hardware, settings, layer, back)) {
        const MillraceStepsBeat now{.unit = beat.unit, .depth = beat.depth, .address = beat.address, .weights = beat.weights.data()};
        library.load(engine, &now);
      }
      weights = layer.hidden_weight;
      transposed = back;
    }
    if (std::vector<int32_t> wanted = bias_image(planned.hardware, settings, layer); wanted != biases) {
      library.load_biases(engine, wanted.data(), settings.words);
      biases = std::move(wanted);
    }
  }

  // The state of a sequence: `taken` gives what the recurrent product takes of a gate and unit, `kept` what a unit keeps.
  template <typename Taken, typename Kept>
  void load_state(const PassSettings& settings, int64_t units, bool back, const Taken& taken, const Kept& kept) {
    const PeChainHardware& h = planned.hardware;
    const int64_t gates = word_parts_of(h.cell).gates;
    const std::vector<int16_t> of_product = pass_words(h, settings, {}, units, back, gates, gates,
                                                       [&](int64_t, int64_t, int64_t unit, int64_t gate) { return taken(gate, unit); });
    const std::vector<int32_t> of_units =
        pass_words(h, settings, {}, units, back, 1, 1, [&](int64_t, int64_t, int64_t unit, int64_t) { return int32_t{kept(unit)}; });
    library.load_state(engine, back, of_product.data(), of_units.data(), settings.words);
  }

  // What a pass over one sequence gives, word after word.
  std::vector<int16_t> run(const FixedRecurrent& layer, const PassSettings& settings, bool back, int64_t steps,
                           const std::vector<int16_t>& inputs) {
    const PeChainHardware& h = planned.hardware;
    const int64_t words = steps * settings.words;
    std::vector<int16_t> outputs(static_cast<size_t>(words * word_parts_of(h.cell).out() * h.chains));
    const MillraceStepsJob job{.settings = settings,
                               .sum_shift = layer.formats.sum_shift(layer.cell),
                               .weight_shift = layer.formats.hidden_weight(),
                               .hidden_shift = kGateFraction - layer.formats.hidden,
                               .back = back,
                               .continues = true,
                               .samples = 1,
                               .steps = steps,
                               .inputs = inputs.data(),
                               .input_words = words,
                               .output_words = words,
                               .most_cycles = 10'000 + 10 * steps * (settings.fullest() + 100)};
    const int64_t taken = library.run(engine, &job, outputs.data());
    if (taken < 0)
      fail(taken == -1 ? ErrorCode::kTimeout : ErrorCode::kMismatch, "{}: a pass {} of {} steps {}", text_of(h), back ? "back" : "forward",
           steps, taken == -1 ? fmt::format("does not end within {} cycles of its RTL", job.most_cycles) : "gives another number of words");
    cycles += taken;
    return outputs;
  }

  // Fails at the first word that is another; `parts` of each are of the layer.
  void compare(const std::vector<int16_t>& expected, const std::vector<int16_t>& found, const PassSettings& settings, int64_t units,
               bool back, int64_t parts) const {
    const int64_t chains = planned.hardware.chains, each = word_parts_of(planned.hardware.cell).out() * chains;
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const int64_t word = at / each, part = at % each / chains, unit = word % settings.words * chains + at % chains;
      if (unit < units && part < parts && found[i] != expected[i])
        fail(ErrorCode::kMismatch, "{}: the RTL differs from the functional model {} at step {}, part {}, unit {}: {} instead of {}",
             text_of(planned.hardware), back ? "back" : "forward", word / settings.words, part, unit, found[i], expected[i]);
    }
  }

  PlannedSteps planned;
  StepsLibrary library;
  void* engine;
  std::vector<int16_t> weights;
  std::vector<int32_t> biases;
  bool transposed = false;
  int64_t cycles = 0;
};

SimulatedSteps::SimulatedSteps(SimulatedStepsOptions options) : options_(std::move(options)), host_(make_host_chain_engine()) {}
SimulatedSteps::~SimulatedSteps() = default;

SimulatedSteps::Served& SimulatedSteps::engine_for(const FixedRecurrent& layer) {
  const PlannedSteps wanted{small_engine(layer.cell, layer.hidden), layer.forms};
  for (const auto& served : served_)
    if (served->planned == wanted) return *served;
  served_.push_back(std::make_unique<Served>(wanted, options_.build));
  return *served_.back();
}

std::vector<int16_t> SimulatedSteps::forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run,
                                             RecurrentState& state, FixedKept& kept, RecurrentCounters& counters) {
  refuse_what_is_not_built(of);
  const FixedRecurrent& layer = of.layer;
  const RecurrentState before = state;
  const std::vector<int16_t> expected = host_->forward(of, sums, run, state, kept, counters);
  Served& served = engine_for(layer);
  const PeChainHardware& h = served.planned.hardware;
  const WordParts parts = word_parts_of(h.cell);
  const PassSettings settings = pass_settings(h, layer.hidden);
  served.load(layer, settings, /*back=*/false);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    const int64_t steps = run.valid_steps(stream), units = layer.hidden;
    if (steps == 0) continue;
    const auto at = [&](int64_t step, int64_t unit) { return static_cast<size_t>((stream * run.steps + step) * units + unit); };
    const auto h_before = [&](int64_t unit) { return before.hidden[static_cast<size_t>(stream * units + unit)]; };
    served.load_state(
        settings, units, false, [&](int64_t gate, int64_t unit) { return gate == 0 ? h_before(unit) : int16_t{0}; },
        [&](int64_t unit) {
          return layer.cell == CellKind::kLstm ? before.cell[static_cast<size_t>(stream * units + unit)] : int32_t{h_before(unit)};
        });
    const PassShape shape{.samples = 1, .steps = steps};
    const std::vector<int16_t> found = served.run(
        layer, settings, false, steps,
        pass_words(h, settings, shape, units, false, parts.gates, parts.in(), [&](int64_t, int64_t step, int64_t unit, int64_t gate) {
          return sums[at(step, unit) * static_cast<size_t>(parts.gates) + static_cast<size_t>(gate)];
        }));
    served.compare(pass_words(h, settings, shape, units, false, parts.out(), parts.out(),
                              [&](int64_t, int64_t step, int64_t unit, int64_t part) {
                                return part == 0 ? expected[at(step, unit)]
                                                 : record_word(kept.records[at(step, unit)], layer.cell, part - 1);
                              }),
                   found, settings, units, false, parts.out());
  }
  return expected;
}

FixedErrors SimulatedSteps::back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                                 FixedBackState& state, ArithmeticCounters& counters) {
  refuse_what_is_not_built(of);
  const FixedRecurrent& layer = of.layer;
  const FixedBackState before = state;
  const FixedErrors expected = host_->back(of, errors, run, kept, state, counters);
  Served& served = engine_for(layer);
  const PeChainHardware& h = served.planned.hardware;
  const WordParts parts = word_parts_of(h.cell);
  const PassSettings settings = pass_settings(h, layer.hidden);
  served.load(layer, settings, /*back=*/true);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    const int64_t steps = run.valid_steps(stream), units = layer.hidden;
    if (steps == 0) continue;
    const auto at = [&](int64_t step, int64_t unit) { return static_cast<size_t>((stream * run.steps + step) * units + unit); };
    served.load_state(
        settings, units, true,
        [&](int64_t gate, int64_t unit) { return before.errors[static_cast<size_t>((stream * parts.gates + gate) * units + unit)]; },
        [&](int64_t unit) { return before.carried[static_cast<size_t>(stream * units + unit)]; });
    const PassShape shape{.samples = 1, .steps = steps};
    const std::vector<int16_t> found = served.run(
        layer, settings, true, steps,
        pass_words(h, settings, shape, units, true, parts.in(), parts.in(), [&](int64_t, int64_t step, int64_t unit, int64_t part) {
          const UnitRecord& record = kept.records[at(step, unit)];
          return part == 0 ? errors[at(step, unit)] : part == 6 ? record.before : record_word(record, layer.cell, part - 1);
        }));
    const int64_t given = parts.gates + (layer.cell == CellKind::kGru ? 1 : 0);
    served.compare(pass_words(h, settings, shape, units, true, given, parts.out(),
                              [&](int64_t, int64_t step, int64_t unit, int64_t part) {
                                return part < parts.gates
                                           ? expected.sums[at(step, unit) * static_cast<size_t>(parts.gates) + static_cast<size_t>(part)]
                                           : expected.candidates[at(step, unit)];
                              }),
                   found, settings, units, true, given);
  }
  return expected;
}

int64_t SimulatedSteps::cycles() const {
  int64_t all = 0;
  for (const auto& served : served_) all += served->cycles;
  return all;
}

}  // namespace millrace
