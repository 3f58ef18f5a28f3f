#include "fpga/cosim/simulated_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "fpga/cosim/harness/steps_library.h"
#include "fpga/cosim/shared_library.h"
#include "fpga/pe_chain/rtl/pass_words.h"
#include "fpga/recurrence/rtl/rtl_modules.h"

namespace millrace {

namespace {

constexpr int64_t kElementsOfASmallEngine = 64;

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
PeChainHardware small_engine(CellKind cell, const StepExtent& extent) {
  constexpr int64_t kFewestOfProjections = 4;
  const bool projects = extent.projected > 0;
  PeChainHardware hardware{.cell = cell, .chains = projects ? kFewestOfProjections : 2, .samples = 1, .projects = projects};
  const int64_t elements = hardware.chains * hardware.per_chain, units = extent.units;
  const auto power = [](int64_t least) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least))); };
  int64_t words = (units + elements - 1) / elements * units;
  if (projects) words = std::max(settings_of(hardware, extent, false).fullest(), settings_of(hardware, extent, true).fullest());
  hardware.words = std::max(hardware.words, power(words));
  const int64_t most = std::max(units, extent.projected);
  hardware.state_words = std::max(hardware.state_words, power((most + hardware.chains - 1) / hardware.chains + hardware.per_chain));
  return hardware;
}
StepExtent extent_of(const FixedRecurrent& layer) { return {layer.hidden, layer.projection}; }

std::string text_of(const PeChainHardware& h) {
  return fmt::format("pe_chain, {} units of {} x {} elements{}", gates_of(h.cell), h.chains, h.per_chain,
                     h.projects ? ", with a projection" : "");
}

void refuse_what_is_not_built(const StepsOfBoard& of) {
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
    const PlannedSteps steps{small_engine(cell->cell, {cell->hidden, cell->projection}), gate_forms_of(*cell, smooth)};
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
          .image = tables ? gate_table_text() : "",
          .small = hardware.elements() <= kElementsOfASmallEngine};
}

// An engine, built when it is first needed, and what its memories hold.
struct SimulatedSteps::Served {
  Served(PlannedSteps of, const EngineBuildOptions& build)
      : planned(of), library(build_library(library_of(of), build).engine_file), engine(library.open()) {}
  ~Served() { library.close(engine); }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void load(const FixedRecurrent& layer, const StepSettings& settings, bool back) {
    if (layer.hidden_weight != weights || layer.projection_weight != projection || back != transposed) {
      for (const WeightBeat& beat : weight_beats(planned.hardware, settings, layer, back)) {
        const MillraceStepsBeat now{.unit = beat.unit, .depth = beat.depth, .address = beat.address, .weights = beat.weights.data()};
        library.load(engine, &now);
      }
      weights = layer.hidden_weight;
      projection = layer.projection_weight;
      transposed = back;
    }
    if (std::vector<int32_t> wanted = bias_image(planned.hardware, layer); wanted != biases) {
      library.load_biases(engine, wanted.data(), settings.gated(back).words);
      biases = std::move(wanted);
    }
  }

  // The state of a sequence: `taken` gives what the recurrent product takes of a gate and unit, forward a feature, `kept` what a unit
  // keeps.
  template <typename Taken, typename Kept>
  void load_state(const FixedRecurrent& layer, const StepSettings& settings, bool back, const Taken& taken, const Kept& kept) {
    const PeChainHardware& h = planned.hardware;
    const int64_t gates = word_parts_of(h.cell).gates;
    const int64_t words = std::max(settings.recurrent.words, settings.projects ? settings.projection.words : 0);
    std::vector<int16_t> of_product;
    std::vector<int32_t> of_units;
    add_words(
        h, words, 1, back ? layer.hidden : layer.features(), gates, gates,
        [&](int64_t, int64_t unit, int64_t gate) { return taken(gate, unit); }, of_product);
    add_words(
        h, words, 1, layer.hidden, 1, 1, [&](int64_t, int64_t unit, int64_t) { return int32_t{kept(unit)}; }, of_units);
    library.load_state(engine, back, of_product.data(), of_units.data(), words);
  }

  // What a pass over one sequence gives, word after word, so many words.
  std::vector<int16_t> run(const FixedRecurrent& layer, const StepSettings& settings, bool back, int64_t steps,
                           const std::vector<int16_t>& inputs, int64_t words) {
    const PeChainHardware& h = planned.hardware;
    const WordParts parts = word_parts_of(h.cell);
    std::vector<int16_t> outputs(to_size(words * parts.out() * h.chains));
    const PassShifts shifts = shifts_of(layer, back);
    const MillraceStepsJob job{.settings = settings,
                               .sum_shift = shifts.sum,
                               .weight_shift = shifts.weight,
                               .hidden_shift = shifts.hidden,
                               .projected_shift = shifts.projected,
                               .back = back,
                               .continues = true,
                               .samples = 1,
                               .steps = steps,
                               .inputs = inputs.data(),
                               .input_words = static_cast<int64_t>(inputs.size()) / (parts.in() * h.chains),
                               .output_words = words,
                               .most_cycles = 10'000 + 10 * steps * (settings.fullest() + 200)};
    const int64_t taken = library.run(engine, &job, outputs.data());
    if (taken < 0)
      fail(taken == -1 ? ErrorCode::kTimeout : ErrorCode::kMismatch, "{}: a pass {} of {} steps {}", text_of(h), back ? "back" : "forward",
           steps, taken == -1 ? fmt::format("does not end within {} cycles of its RTL", job.most_cycles) : "gives another number of words");
    cycles += taken;
    return outputs;
  }

  // Runs a pass over one sequence and fails at the first word that is another. Of the product that the gates follow, and of the other one
  // of a layer that projects: what goes in, and what has to leave.
  template <typename Given, typename GivenOther, typename Expected, typename ExpectedOther>
  void run_and_compare(const FixedRecurrent& layer, bool back, int64_t steps, int64_t given_parts, const Given& given, int64_t other_parts,
                       const GivenOther& given_other, int64_t parts, const Expected& expected, const ExpectedOther& expected_other) {
    const PeChainHardware& h = planned.hardware;
    const StepSettings settings = step_settings(h, extent_of(layer), back);
    const PassShape shape{.samples = 1, .steps = steps};
    const WordParts widths = word_parts_of(h.cell);
    const auto there = [](int64_t, int64_t, int64_t, int64_t) { return int16_t{1}; };
    const std::vector<int16_t> inputs =
        step_words(h, settings, shape, back, widths.in(), {layer.hidden, given_parts}, given, {layer.features(), other_parts}, given_other);
    const std::vector<int16_t> all =
        step_words(h, settings, shape, back, widths.out(), {layer.hidden, parts}, expected, {layer.features(), 1}, expected_other);
    const std::vector<int16_t> mask =
        step_words(h, settings, shape, back, widths.out(), {layer.hidden, parts}, there, {layer.features(), 1}, there);
    const int64_t each = widths.out() * h.chains, words = static_cast<int64_t>(all.size()) / each;
    const std::vector<int16_t> found = run(layer, settings, back, steps, inputs, words);
    for (size_t i = 0; i < all.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (mask[i] != 0 && found[i] != all[i])
        fail(ErrorCode::kMismatch,
             "{}: the RTL differs from the functional model {} at step {}, part {}, chain {} of word {}: {} instead of {}", text_of(h),
             back ? "back" : "forward", at / each / (words / steps), at % each / h.chains, at % h.chains, at / each % (words / steps),
             found[i], all[i]);
    }
  }

  PlannedSteps planned;
  StepsLibrary library;
  void* engine;
  std::vector<int16_t> weights, projection;
  std::vector<int32_t> biases;
  bool transposed = false;
  int64_t cycles = 0;
};

SimulatedSteps::SimulatedSteps(SimulatedStepsOptions options) : options_(std::move(options)), host_(make_host_chain_engine()) {}
SimulatedSteps::~SimulatedSteps() = default;

SimulatedSteps::Served& SimulatedSteps::engine_for(const FixedRecurrent& layer) {
  const PlannedSteps wanted{small_engine(layer.cell, extent_of(layer)), layer.forms};
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
  const WordParts parts = word_parts_of(layer.cell);
  const StepSettings settings = step_settings(served.planned.hardware, extent_of(layer), /*back=*/false);
  served.load(layer, settings, /*back=*/false);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    const int64_t steps = run.valid_steps(stream), units = layer.hidden, features = layer.features();
    if (steps == 0) continue;
    const auto at = [&](int64_t step, int64_t unit) { return to_size((stream * run.steps + step) * units + unit); };
    const auto h_before = [&](int64_t feature) { return fast_item(before.hidden, stream * features + feature); };
    const auto h_of = [&](int64_t, int64_t step, int64_t feature, int64_t) {
      return fast_item(expected, (stream * run.steps + step) * features + feature);
    };
    served.load_state(
        layer, settings, false, [&](int64_t gate, int64_t feature) { return gate == 0 ? h_before(feature) : int16_t{0}; },
        [&](int64_t unit) {
          return layer.cell == CellKind::kLstm ? fast_item(before.cell, stream * units + unit) : int32_t{h_before(unit)};
        });
    served.run_and_compare(
        layer, false, steps, parts.gates,
        [&](int64_t, int64_t step, int64_t unit, int64_t gate) {
          return sums[at(step, unit) * static_cast<size_t>(parts.gates) + static_cast<size_t>(gate)];
        },
        0, h_of, parts.out(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record_word(kept.records[at(step, unit)], layer.cell, part - 1);
          return settings.projects ? kept.units[at(step, unit)] : h_of(sample, step, unit, 0);
        },
        h_of);
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
  const WordParts parts = word_parts_of(layer.cell);
  const StepSettings settings = step_settings(served.planned.hardware, extent_of(layer), /*back=*/true);
  served.load(layer, settings, /*back=*/true);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    const int64_t steps = run.valid_steps(stream), units = layer.hidden, features = layer.features();
    if (steps == 0) continue;
    const auto at = [&](int64_t step, int64_t unit) { return to_size((stream * run.steps + step) * units + unit); };
    const auto feature_of = [&](std::span<const int16_t> values) {
      return [=, &run](int64_t, int64_t step, int64_t feature, int64_t) {
        return fast_item(values, (stream * run.steps + step) * features + feature);
      };
    };
    const auto error_of = feature_of(errors);
    served.load_state(
        layer, settings, true,
        [&](int64_t gate, int64_t unit) { return fast_item(before.errors, (stream * parts.gates + gate) * units + unit); },
        [&](int64_t unit) { return fast_item(before.carried, stream * units + unit); });
    served.run_and_compare(
        layer, true, steps, parts.in(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          const UnitRecord& record = kept.records[at(step, unit)];
          if (part == 0) return settings.projects ? int16_t{0} : error_of(sample, step, unit, 0);
          return part == 6 ? record.before : record_word(record, layer.cell, part - 1);
        },
        1, error_of, parts.gates + (layer.cell == CellKind::kGru ? 1 : 0),
        [&](int64_t, int64_t step, int64_t unit, int64_t part) {
          return part < parts.gates ? expected.sums[at(step, unit) * static_cast<size_t>(parts.gates) + static_cast<size_t>(part)]
                                    : expected.candidates[at(step, unit)];
        },
        feature_of(expected.features));
  }
  return expected;
}

int64_t SimulatedSteps::cycles() const {
  int64_t all = 0;
  for (const auto& served : served_) all += served->cycles;
  return all;
}

}  // namespace millrace
