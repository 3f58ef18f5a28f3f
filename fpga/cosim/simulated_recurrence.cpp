#include "fpga/cosim/simulated_recurrence.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/cosim/harness/sbe_library.h"
#include "fpga/cosim/shared_library.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "fpga/sbe/phases/weight_image.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

namespace {

constexpr int64_t kMemoryLatency = 100;  // cycles, of the memory outside

struct RecurrenceLibrary {
  explicit RecurrenceLibrary(const std::filesystem::path& path) : library(path) {
    library.find(open, "millrace_sbe_open");
    library.find(close, "millrace_sbe_close");
    library.find(load_biases, "millrace_sbe_load_biases");
    library.find(load_projection, "millrace_sbe_load_projection");
    library.find(load_state, "millrace_sbe_load_state");
    library.find(read_kept, "millrace_sbe_read_kept");
    library.find(run, "millrace_sbe_run");
  }

  SharedLibrary library;
  decltype(&millrace_sbe_open) open = nullptr;
  decltype(&millrace_sbe_close) close = nullptr;
  decltype(&millrace_sbe_load_biases) load_biases = nullptr;
  decltype(&millrace_sbe_load_projection) load_projection = nullptr;
  decltype(&millrace_sbe_load_state) load_state = nullptr;
  decltype(&millrace_sbe_read_kept) read_kept = nullptr;
  decltype(&millrace_sbe_run) run = nullptr;
};

// Some sixteen multipliers, weights on the chip.
SbeConfig small_config(const FixedRecurrent& layer, const RecurrentRun& run) {
  SbeConfig config{.shape = matrix_of(layer),
                   .tail_units = 1,
                   .latency = kBuiltLatency,
                   .pinned = Pinned::kAll,
                   .words_per_cycle = 4,
                   .inputs_share_bus = false,
                   .sums_arrive = !run.sums.empty(),
                   .streams = std::min<int64_t>(run.streams, 4)};
  for (config.steps = run.steps; config.steps > 0; config.steps /= 2)
    for (config.columns = 1; config.columns <= 8; config.columns *= 2)
      for (int64_t units = std::min<int64_t>(layer.hidden, 8); units > 0; --units) {
        config.row_lanes = units * config.shape.gates;
        if (can_be_built(config)) return config;
      }
  fail(ErrorCode::kUnavailable,
       "no small engine of blocked columns fits a layer of {} inputs and {} units with {} gates; compute it on emulated-fpga", layer.inputs,
       layer.hidden, layer.gates());
}

std::string text_of(const PlannedRecurrence& planned) {
  const SbeConfig& c = planned.config;
  return fmt::format("sbe, {} x {} multipliers, {} tail unit{}, {} streams of {} steps", c.row_lanes, c.columns, c.tail_units,
                     c.tail_units == 1 ? "" : "s", c.streams, c.steps);
}

}  // namespace

std::vector<PlannedRecurrence> planned_recurrences(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth) {
  std::vector<PlannedRecurrence> planned;
  for (const Shard& shard : plan.shards) {
    const Node& node = graph.node(graph.index_of(shard.layer));
    const auto* cell = std::get_if<Recurrent>(&node.layer.operation);
    if (shard.device != device || cell == nullptr) continue;
    const std::optional<SbeConfig> config = weight_stream_of(shard, node);
    // Divided by kind of product: the steps come with sums, and a small engine takes them.
    if (!config && std::ranges::count(plan.shards, shard.layer, &Shard::layer) > 1) continue;
    if (!config)
      fail(ErrorCode::kUnavailable,
           "layer \"{}\": the plan has no engine for it that can be simulated; plan with millrace plan --inference, or compute it on "
           "emulated-fpga",
           shard.layer);
    planned.push_back({shard.layer, cell->cell, gate_forms_of(*cell, smooth), *config});
  }
  return planned;
}

EngineLibrary library_of(const PlannedRecurrence& planned) {
  const SbeHardware hardware = hardware_of(planned.config, planned.cell, planned.forms);
  const bool tables = planned.forms.sigmoid == SigmoidForm::kTable || planned.forms.tanh == TanhForm::kTable;
  return {.name = text_of(planned),
          .top = "sbe_engine",
          .parameters = parameters_of(hardware),
          .defines = {{"MILLRACE_ENGINE_INPUT_WORDS", hardware.words_of_input()},
                      {"MILLRACE_ENGINE_UNITS", hardware.units},
                      {"MILLRACE_ENGINE_BEAT_WORDS", hardware.beat_words}},
          .modules = sbe_engine_modules(),
          .harness = sbe_harness_sources(),
          .image_parameter = tables ? "TABLE" : "",
          .image_file = kGateTableFile,
          .image = tables ? gate_table_text() : ""};
}

// An engine, opened when it is first needed.
struct SimulatedRecurrence::Served {
  Served(PlannedRecurrence of, const EngineBuildOptions& options) : planned(std::move(of)), build(options) {}
  ~Served() {
    if (engine != nullptr) library->close(engine);
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  void open(const FixedRecurrent& layer) {
    if (engine == nullptr) {
      library = std::make_unique<RecurrenceLibrary>(build_library(library_of(planned), build).engine_file);
      engine = library->open();
    }
    WeightImage now = weight_image(planned.config, layer);
    now.words.resize(to_size(rounded_up(static_cast<int64_t>(now.words.size()), kPageWords)));
    if (now.words != image.words) {
      image = std::move(now);
      pinned_is_there = planned.config.pinned == Pinned::kNone;
    }
    if (std::vector<int32_t> wanted = bias_words(layer); wanted != biases) {
      biases = std::move(wanted);
      library->load_biases(engine, biases.data(), static_cast<int64_t>(biases.size()),
                           planned.config.tail_units * biases_of_unit(layer.cell));
    }
    if (std::vector<int16_t> wanted = projection_words(planned.config, layer); wanted != projection) {
      projection = std::move(wanted);
      library->load_projection(engine, projection.data(), static_cast<int64_t>(projection.size()), planned.config.projection_multipliers());
    }
  }

  // What the tail keeps of a unit's state: cells of lstm, h of gru.
  int64_t kept_words(const FixedRecurrent& layer) const {
    return layer.cell == CellKind::kLstm || layer.cell == CellKind::kGru ? planned.config.streams * layer.hidden : 0;
  }

  // The state of streams from `first` on, of which there are `streams`; the others begin with zeros.
  void load_state(const FixedRecurrent& layer, const RecurrentState& state, int64_t first, int64_t streams) {
    const auto part = [&](const auto& all, int64_t each) {
      auto own = std::vector(all.begin() + first * each, all.begin() + (first + streams) * each);
      own.resize(to_size(planned.config.streams * each));
      return own;
    };
    const std::vector<int16_t> hidden = part(state.hidden, layer.features());
    std::vector<int32_t> kept;
    if (layer.cell == CellKind::kLstm) kept = part(state.cell, layer.hidden);
    if (layer.cell == CellKind::kGru) kept.assign(hidden.begin(), hidden.end());
    const SbeSettings settings = settings_of(planned.config, layer, image, 0);
    library->load_state(engine, &settings, hidden.data(), static_cast<int64_t>(hidden.size()), kept.data(),
                        static_cast<int64_t>(kept.size()));
  }
  std::vector<int32_t> kept(const FixedRecurrent& layer) {
    std::vector<int32_t> values(to_size(kept_words(layer)));
    library->read_kept(engine, values.data(), static_cast<int64_t>(values.size()));
    return values;
  }

  // Batches that follow each other with the same numbers of valid steps: h in the engine's order.
  std::vector<int16_t> run(const FixedRecurrent& layer, int64_t batches, bool stateful, const std::vector<int64_t>& valid,
                           std::span<const int16_t> inputs) {
    const SbeConfig& config = planned.config;
    const BuiltCycles modelled = built_cycles(config, kMemoryLatency);
    std::vector<int16_t> outputs(to_size(batches * config.vectors() * layer.features()));
    const MillraceSbeJob job{.settings = settings_of(config, layer, image, 0),
                             .batches = batches,
                             .stateful = stateful,
                             .loads_pinned = !pinned_is_there,
                             .valid_steps = valid.data(),
                             .memory = image.words.data(),
                             .memory_words = static_cast<int64_t>(image.words.size()),
                             .inputs = inputs.data(),
                             .input_words = static_cast<int64_t>(inputs.size()),
                             .memory_latency = kMemoryLatency,
                             .most_cycles = 100'000 + 20 * batches * static_cast<int64_t>(modelled.batch + 1) + 20 * modelled.first};
    MillraceSbeResults results{.outputs = outputs.data(), .output_words = static_cast<int64_t>(outputs.size()), .beats = 0};
    const int64_t taken = library->run(engine, &job, &results);
    if (taken < 0)
      fail(taken == -1 ? ErrorCode::kTimeout : ErrorCode::kMismatch, "{} of {} batch{} {} ({})", text_of(planned), batches,
           batches == 1 ? "" : "es",
           taken == -1   ? fmt::format("does not end within {} cycles of its RTL", job.most_cycles)
           : taken == -2 ? std::string("asks the memory outside for what is not there")
                         : std::string("gives another number of outputs"),
           planned.layer);
    pinned_is_there = true;
    cycles += taken;
    words += results.beats * config.words_per_cycle;
    return outputs;
  }

  PlannedRecurrence planned;
  EngineBuildOptions build;
  std::unique_ptr<RecurrenceLibrary> library;
  void* engine = nullptr;
  WeightImage image;
  std::vector<int32_t> biases;
  std::vector<int16_t> projection;
  bool pinned_is_there = false;
  int64_t cycles = 0, words = 0;
};

SimulatedRecurrence::SimulatedRecurrence(SimulatedRecurrenceOptions options) : options_(std::move(options)) {
  for (const PlannedRecurrence& planned : options_.planned) served_.push_back(std::make_unique<Served>(planned, options_.build));
}
SimulatedRecurrence::~SimulatedRecurrence() = default;

SimulatedRecurrence::Served& SimulatedRecurrence::engine_for(const FixedRecurrent& layer, const RecurrentRun& run) {
  const PlannedRecurrence* other_forms = nullptr;
  for (const auto& served : served_) {
    const PlannedRecurrence& planned = served->planned;
    if (planned.cell != layer.cell || planned.config.shape != matrix_of(layer) || planned.config.sums_arrive == run.sums.empty()) continue;
    if (planned.forms == layer.forms) return *served;
    other_forms = &planned;
  }
  if (other_forms != nullptr) {
    PlannedRecurrence same = *other_forms;
    same.forms = layer.forms;
    served_.push_back(std::make_unique<Served>(std::move(same), options_.build));
    return *served_.back();
  }
  if (!options_.planned.empty() && run.sums.empty())
    fail(ErrorCode::kUnavailable, "no engine of the plan's device computes a layer of {} inputs and {} units with {} gates", layer.inputs,
         layer.hidden, layer.gates());
  served_.push_back(std::make_unique<Served>(
      PlannedRecurrence{.layer = "", .cell = layer.cell, .forms = layer.forms, .config = small_config(layer, run)}, options_.build));
  return *served_.back();
}

std::vector<int16_t> SimulatedRecurrence::forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x,
                                                  RecurrentState& state, RecurrentCounters& counters, RecurrentTrace* trace) {
  Served& served = engine_for(layer, run);
  const auto is_zero = [](auto value) { return value == 0; };
  const bool from_zeros = std::ranges::all_of(state.hidden, is_zero) && std::ranges::all_of(state.cell, is_zero);
  const RecurrentState before = from_zeros ? RecurrentState{} : state;
  const std::vector<int16_t> expected = direct_forward(layer, run, x, state, counters, trace);
  served.open(layer);
  const SbeConfig& config = served.planned.config;
  std::vector<int16_t> found(expected.size());
  for (int64_t first_stream = 0; first_stream < run.streams; first_stream += config.streams) {
    const int64_t streams = std::min(config.streams, run.streams - first_stream);
    if (!from_zeros) served.load_state(layer, before, first_stream, streams);
    for (int64_t first_step = 0; first_step < run.steps; first_step += config.steps) {
      const int64_t steps = std::min(config.steps, run.steps - first_step);
      // Streams and steps that there are not have no valid step.
      std::vector<int64_t> valid(to_size(config.streams));
      std::vector<int16_t> part(to_size(config.vectors() * layer.inputs));
      std::vector<int32_t> sums(config.sums_arrive ? to_size(config.vectors() * layer.rows()) : 0);
      for (int64_t stream = 0; stream < streams; ++stream) {
        fast_item(valid, stream) = std::clamp<int64_t>(run.valid_steps(first_stream + stream) - first_step, 0, steps);
        const auto from = x.begin() + ((first_stream + stream) * run.steps + first_step) * layer.inputs;
        std::copy_n(from, steps * layer.inputs, part.begin() + stream * config.steps * layer.inputs);
        if (config.sums_arrive)
          std::copy_n(run.sums.begin() + ((first_stream + stream) * run.steps + first_step) * layer.rows(), steps * layer.rows(),
                      sums.begin() + stream * config.steps * layer.rows());
      }
      const std::vector<int16_t> h =
          served.run(layer, 1, first_step > 0 || !from_zeros, valid,
                     config.sums_arrive ? sum_words_of(config, layer, sums) : input_chunks_of(config, layer, part));
      for (int64_t stream = 0; stream < streams; ++stream)
        for (int64_t step = 0; step < steps; ++step)
          std::copy_n(h.begin() + (step * config.streams + stream) * layer.features(), layer.features(),
                      found.begin() + ((first_stream + stream) * run.steps + first_step + step) * layer.features());
    }
    if (layer.cell == CellKind::kLstm) {
      const std::vector<int32_t> cells = served.kept(layer);
      const auto place = state.cell.begin() + first_stream * layer.hidden;
      if (const auto [wanted, got] = std::mismatch(place, place + streams * layer.hidden, cells.begin());
          wanted != place + streams * layer.hidden)
        fail(ErrorCode::kMismatch, "a cell of the RTL differs from the functional model behind sequence {}, unit {}: {} instead of {} ({})",
             first_stream + (wanted - place) / layer.hidden, (wanted - place) % layer.hidden, *got, *wanted, text_of(served.planned));
    }
  }
  if (const auto [wanted, got] = std::ranges::mismatch(expected, found); wanted != expected.end()) {
    const int64_t at = wanted - expected.begin(), vector = at / layer.features();
    fail(ErrorCode::kMismatch,
         "h of the RTL differs from the functional model at sequence {}, step {}, unit {}: {} instead of {} ({} inputs, {} units; {})",
         vector / run.steps, vector % run.steps, at % layer.features(), *got, *wanted, layer.inputs, layer.hidden, text_of(served.planned));
  }
  return found;
}

int64_t SimulatedRecurrence::cycles() const {
  int64_t all = 0;
  for (const auto& served : served_) all += served->cycles;
  return all;
}
int64_t SimulatedRecurrence::weight_words() const {
  int64_t all = 0;
  for (const auto& served : served_) all += served->words;
  return all;
}

}  // namespace millrace
