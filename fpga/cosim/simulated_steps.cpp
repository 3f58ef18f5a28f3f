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
  int64_t words = (units + elements - 1) / elements * extent.inputs_of_features();
  if (projects) words = std::max(settings_of(hardware, extent, false).fullest(), settings_of(hardware, extent, true).fullest());
  hardware.words = std::max(hardware.words, power(words));
  const int64_t most = std::max(extent.inputs_of_features(), extent.inputs_of_units());
  hardware.state_words = std::max(hardware.state_words, power((most + hardware.chains - 1) / hardware.chains + hardware.per_chain));
  return hardware;
}
std::string text_of(const PeChainHardware& h) {
  return fmt::format("pe_chain, {} units of {} x {} elements{}", gates_of(h.cell), h.chains, h.per_chain,
                     h.projects ? ", with a projection" : "");
}

// What a pass of a board does, and what is the board's.
struct Task {
  explicit Task(const StepsOfBoard& of, bool goes_back)
      : layer(of.layer),
        board(of.board),
        features(features_of_board(layer.hidden, layer.features(), board)),
        back(goes_back),
        gated(of.part != StepPart::kFeatures),
        part(of.part == StepPart::kBoth                    ? 0
             : (of.part == StepPart::kUnits) == !goes_back ? 1
                                                           : 2) {}

  StepSettings settings(const PeChainHardware& hardware) const {
    StepSettings made = step_settings(hardware, extent_of(layer, board), back);
    made.part = part;
    return made;
  }
  // What the products take of a state: h or errors of units, or what the other part of a step made.
  int64_t taken() const { return back == (part != 2) ? layer.hidden : layer.features(); }

  const FixedRecurrent& layer;
  UnitRange board, features;
  bool back, gated;
  int64_t part;
};

// One board of several takes a step at a time, with what the others made before it.
void check_steps(const StepsOfBoard& of, const RecurrentRun& run) {
  if (!of.whole() && run.steps != 1)
    fail(ErrorCode::kUnavailable, "units [{}, {}) of {} are one board's of several, which takes a step at a time, not {}", of.board.begin,
         of.board.end, of.layer.hidden, run.steps);
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
    const UnitRange board = shard.units.empty() ? UnitRange{0, cell->hidden} : UnitRange{shard.units.begin, shard.units.end};
    const PlannedSteps steps{small_engine(cell->cell, extent_of(cell->hidden, cell->projection, board)), gate_forms_of(*cell, smooth)};
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

  void load(const Task& task) {
    const FixedRecurrent& layer = task.layer;
    const StepSettings settings = task.settings(planned.hardware);
    const bool same = task.board.begin == board.begin && task.board.end == board.end;
    if (!same || layer.hidden_weight != weights || layer.projection_weight != projection || task.back != transposed) {
      for (const WeightBeat& beat : weight_beats(planned.hardware, settings, layer, task.board, task.back)) {
        const MillraceStepsBeat now{.unit = beat.unit, .depth = beat.depth, .address = beat.address, .weights = beat.weights.data()};
        library.load(engine, &now);
      }
      board = task.board;
      weights = layer.hidden_weight;
      projection = layer.projection_weight;
      transposed = task.back;
    }
    if (std::vector<int32_t> wanted = bias_image(planned.hardware, layer, task.board); wanted != biases) {
      library.load_biases(engine, wanted.data(), settings.gated(task.back).words);
      biases = std::move(wanted);
    }
  }

  // The state of a sequence: `taken` gives what the product takes of a gate and unit or feature, `kept` what a unit of the board keeps.
  template <typename Taken, typename Kept>
  void load_state(const Task& task, const Taken& taken, const Kept& kept) {
    const PeChainHardware& h = planned.hardware;
    const StepSettings s = task.settings(h);
    const int64_t gates = word_parts_of(h.cell).gates;
    const int64_t words = std::max({s.recurrent.words, s.projection.words, s.recurrent.taken_words, s.projection.taken_words});
    std::vector<int16_t> of_product;
    std::vector<int32_t> of_units;
    add_words(
        h, words, 1, task.taken(), gates, gates, [&](int64_t, int64_t unit, int64_t gate) { return taken(gate, unit); }, of_product);
    add_words(
        h, words, 1, task.board.count(), 1, 1, [&](int64_t, int64_t unit, int64_t) { return int32_t{kept(task.board.begin + unit)}; },
        of_units);
    library.load_state(engine, task.back, of_product.data(), of_units.data(), words);
  }

  // What a pass over one sequence gives, word after word, so many words.
  std::vector<int16_t> run(const Task& task, int64_t steps, const std::vector<int16_t>& inputs, int64_t words) {
    const PeChainHardware& h = planned.hardware;
    const WordParts parts = word_parts_of(h.cell);
    const bool back = task.back;
    const StepSettings settings = task.settings(h);
    std::vector<int16_t> outputs(to_size(words * parts.out() * h.chains));
    const PassShifts shifts = shifts_of(task.layer, back);
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
  // of a layer that projects: what goes in, and what has to leave, of the layer's units and features.
  template <typename Given, typename GivenOther, typename Expected, typename ExpectedOther>
  void run_and_compare(const Task& task, int64_t steps, int64_t given_parts, const Given& given, int64_t other_parts,
                       const GivenOther& given_other, int64_t parts, const Expected& expected, const ExpectedOther& expected_other) {
    const PeChainHardware& h = planned.hardware;
    const bool back = task.back;
    const StepSettings settings = task.settings(h);
    const PassShape shape{.samples = 1, .steps = steps};
    const WordParts widths = word_parts_of(h.cell);
    const int64_t units = task.board.count(), features = task.features.count();
    // The board's own, from the first on.
    const auto own = [](const auto& values, const UnitRange& range) {
      return [&values, first = range.begin](int64_t sample, int64_t step, int64_t index, int64_t part) {
        return values(sample, step, first + index, part);
      };
    };
    const auto there = [](int64_t, int64_t, int64_t, int64_t) { return int16_t{1}; };
    const std::vector<int16_t> inputs = step_words(h, settings, shape, back, widths.in(), {units, given_parts}, own(given, task.board),
                                                   {features, other_parts}, own(given_other, task.features));
    const std::vector<int16_t> all = step_words(h, settings, shape, back, widths.out(), {units, parts}, own(expected, task.board),
                                                {features, 1}, own(expected_other, task.features));
    const std::vector<int16_t> mask = step_words(h, settings, shape, back, widths.out(), {units, parts}, there, {features, 1}, there);
    const int64_t each = widths.out() * h.chains, words = static_cast<int64_t>(all.size()) / each;
    const std::vector<int16_t> found = run(task, steps, inputs, words);
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
  UnitRange board;
  std::vector<int16_t> weights, projection;
  std::vector<int32_t> biases;
  bool transposed = false;
  int64_t cycles = 0;
};

SimulatedSteps::SimulatedSteps(SimulatedStepsOptions options) : options_(std::move(options)), host_(make_host_chain_engine()) {}
SimulatedSteps::~SimulatedSteps() = default;

SimulatedSteps::Served& SimulatedSteps::engine_for(const StepsOfBoard& of) {
  const PlannedSteps wanted{small_engine(of.layer.cell, extent_of(of.layer, of.board)), of.layer.forms};
  for (const auto& served : served_)
    if (served->planned == wanted) return *served;
  served_.push_back(std::make_unique<Served>(wanted, options_.build));
  return *served_.back();
}

std::vector<int16_t> SimulatedSteps::forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run,
                                             RecurrentState& state, FixedKept& kept, RecurrentCounters& counters) {
  check_steps(of, run);
  const FixedRecurrent& layer = of.layer;
  const RecurrentState before = state;
  const std::vector<int16_t> expected = host_->forward(of, sums, run, state, kept, counters);
  Served& served = engine_for(of);
  const WordParts parts = word_parts_of(layer.cell);
  const Task task(of, /*goes_back=*/false);
  served.load(task);
  for (int64_t stream = 0; stream < run.streams; ++stream) {
    const int64_t steps = run.valid_steps(stream), units = layer.hidden, features = layer.features();
    if (steps == 0) continue;
    const auto at = [&](int64_t step, int64_t unit) { return to_size((stream * run.steps + step) * units + unit); };
    const auto h_before = [&](int64_t feature) { return fast_item(before.hidden, stream * features + feature); };
    const auto h_of = [&](int64_t, int64_t step, int64_t feature, int64_t) {
      return fast_item(expected, (stream * run.steps + step) * features + feature);
    };
    served.load_state(
        task,
        [&](int64_t gate, int64_t index) {
          return gate > 0 ? int16_t{0} : task.gated ? h_before(index) : fast_item(kept.units, stream * run.steps * units + index);
        },
        [&](int64_t unit) {
          return layer.cell == CellKind::kLstm ? fast_item(before.cell, stream * units + unit) : int32_t{h_before(unit)};
        });
    served.run_and_compare(
        task, steps, parts.gates,
        [&](int64_t, int64_t step, int64_t unit, int64_t gate) { return sums[at(step, unit) * to_size(parts.gates) + to_size(gate)]; }, 0,
        h_of, parts.out(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          if (part > 0) return record_word(kept.records[at(step, unit)], layer.cell, part - 1);
          return layer.projection > 0 ? kept.units[at(step, unit)] : h_of(sample, step, unit, 0);
        },
        h_of);
  }
  return expected;
}

FixedErrors SimulatedSteps::back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                                 FixedBackState& state, ArithmeticCounters& counters) {
  check_steps(of, run);
  const FixedRecurrent& layer = of.layer;
  const FixedBackState before = state;
  const FixedErrors expected = host_->back(of, errors, run, kept, state, counters);
  Served& served = engine_for(of);
  const WordParts parts = word_parts_of(layer.cell);
  const Task task(of, /*goes_back=*/true);
  const bool of_errors = of.part != StepPart::kUnits;  // of all units, that the recurrent product takes
  served.load(task);
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
        task,
        [&](int64_t gate, int64_t index) {
          if (of_errors) return fast_item(before.errors, (stream * parts.gates + gate) * units + index);
          return gate > 0 ? int16_t{0} : fast_item(errors, stream * run.steps * features + index);
        },
        [&](int64_t unit) { return fast_item(before.carried, stream * units + unit); });
    served.run_and_compare(
        task, steps, parts.in(),
        [&](int64_t sample, int64_t step, int64_t unit, int64_t part) {
          const UnitRecord& record = kept.records[at(step, unit)];
          if (part == 0) return layer.projection > 0 ? int16_t{0} : error_of(sample, step, unit, 0);
          return part == 6 ? record.before : record_word(record, layer.cell, part - 1);
        },
        1, error_of, parts.gates + (layer.cell == CellKind::kGru ? 1 : 0),
        [&](int64_t, int64_t step, int64_t unit, int64_t part) {
          return part < parts.gates ? expected.sums[at(step, unit) * to_size(parts.gates) + to_size(part)]
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
