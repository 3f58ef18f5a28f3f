// The engine of blocked columns under Verilator against the functional model, bit by bit, and against the cycle model.
//
//   cosimulation_sbe_lstm --cases 100        random layers, blocks, batches, lengths, states, latencies and pauses
//   cosimulation_sbe_lstm --steps 40         walks of one job: each step to the cycle
//   cosimulation_sbe_lstm --batches 40       whole batches in the steady state: within 1%
//   ... --seed 7
//
// What is built is compiled in (CMakeLists.txt); everything else is drawn. Ends with 1 at the first difference, saying where.
#include MILLRACE_MODEL_HEADER

#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

#include "core/base/error.h"
#include "fpga/cosim/harness/sbe_bench.h"
#include "fpga/recurrence/rtl/rtl_modules.h"
#include "fpga/sbe/phases/blocked_forward.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/rtl/engine_hardware.h"
#include "fpga/sbe/timing.h"
#include "tests/fpga/sbe/phases/random_layer.h"

namespace millrace {
namespace {

using testing_support::Dice;

constexpr int64_t kLanes = MILLRACE_LANES, kColumns = MILLRACE_COLUMNS, kUnits = MILLRACE_UNITS, kBeatWords = MILLRACE_BEAT_WORDS;
constexpr int64_t kSlots = MILLRACE_SLOTS, kProjection = MILLRACE_PROJECTION;
constexpr bool kSums = MILLRACE_SUMS != 0;  // x W comes as sums
constexpr auto kCell = static_cast<CellKind>(MILLRACE_CELL);
constexpr GateForms kForms{static_cast<SigmoidForm>(MILLRACE_SIGMOID), static_cast<TanhForm>(MILLRACE_TANH)};
// Memories as CMakeLists.txt builds them.
constexpr int64_t kWeightDepth = 1024, kInputDepth = 4096, kStateDepth = 256, kStoreDepth = 128, kOutputDepth = 512, kStreams = 4;
using Model = MILLRACE_MODEL;

bool fits(const SbeConfig& config) {
  try {
    const SbeHardware h = hardware_of(config, kCell, kForms);
    return h.weight_depth <= kWeightDepth && h.input_depth <= kInputDepth && h.state_depth <= kStateDepth && h.kept_depth <= kStateDepth &&
           h.bias_depth <= kStateDepth && h.projection_depth <= kStateDepth && h.store_depth <= kStoreDepth && h.streams <= kStreams &&
           config.groups() * config.units_per_group() / config.tail_units <= kOutputDepth;
  } catch (const Error&) {
    return false;
  }
}

SbeConfig random_config(Dice& dice, std::initializer_list<Pinned> pinned) {
  for (;;) {
    SbeConfig config{.shape = {},
                     .row_lanes = kLanes,
                     .columns = kColumns,
                     .tail_units = kUnits,
                     .latency = kBuiltLatency,
                     .slots = kSlots,
                     .words_per_cycle = kBeatWords,
                     .inputs_share_bus = false};
    const int64_t gates = gates_of(kCell);
    config.sums_arrive = kSums;
    config.shape = {.inputs = kSums ? 0 : dice.from_to(0, 40),
                    .hidden = dice.from_to(std::max<int64_t>(1, kProjection), 4 * kLanes / gates),
                    .gates = gates,
                    .projection = kProjection};
    config.pinned = kSums ? Pinned::kAll : dice.one_of(pinned);
    if (config.shape.inputs == 0 && config.pinned != Pinned::kAll) continue;
    config.streams = dice.from_to(1, kStreams);
    config.steps = dice.from_to(1, 12);
    const int64_t chunks = config.input_chunks() + (config.pinned == Pinned::kNone ? config.hidden_chunks() : 0);
    if (config.pinned != Pinned::kAll) config.block_chunks = divided_up(chunks, dice.from_to(1, 12));
    if (config.shape.rows() >= kLanes && fits(config)) return config;
  }
}

std::string text_of(const SbeConfig& c) {
  return fmt::format("{} inputs, {} units, {} features, {} groups, blocks of {} chunks ({} and {}), pinned {}, {} streams x {} steps",
                     c.shape.inputs, c.shape.hidden, c.shape.features(), c.groups(), c.block_chunks, c.input_chunks(), c.hidden_chunks(),
                     static_cast<int>(c.pinned), c.streams, c.steps);
}

struct Trial {
  SbeConfig config;
  FixedRecurrent layer;
  WeightImage image;
};

Trial trial_of(Dice& dice, const SbeConfig& config) {
  Trial trial{config, testing_support::random_layer(dice, kCell, config.shape.inputs, config.shape.hidden, kProjection), {}};
  trial.layer.forms = kForms;
  if (dice.from_to(0, 9) == 0) {  // sums that wrap
    trial.layer.input_weight = testing_support::random_elements(dice, trial.layer.rows() * config.shape.inputs, 32767);
    trial.layer.hidden_weight = testing_support::random_elements(dice, trial.layer.rows() * config.shape.features(), 32767);
    trial.layer.projection_weight = testing_support::random_elements(dice, kProjection * config.shape.hidden, 32767);
  }
  trial.image = weight_image(config, trial.layer);
  trial.image.words.resize(static_cast<size_t>(rounded_up(static_cast<int64_t>(trial.image.words.size()), kPageWords)));
  return trial;
}

EngineJob job_of(const Trial& trial, int64_t batches) {
  return {.settings = settings_of(trial.config, trial.layer, trial.image, 0),
          .batches = batches,
          .loads_pinned = trial.config.pinned != Pinned::kNone,
          .valid_steps = std::vector<int64_t>(static_cast<size_t>(trial.config.streams), trial.config.steps),
          .memory = trial.image.words,
          .inputs = {},
          .columns = kSums ? 2 * kUnits * gates_of(kCell) : kColumns,  // words of an input
          .units = kUnits,
          .beat_words = kBeatWords,
          .most_cycles = 3'000'000};
}

struct Seen {
  int64_t cases = 0, loaded_states = 0, batches = 0, values = 0, most_outstanding = 0, wrapped = 0;
  int64_t step_engines = 0, waiting_engines = 0, batch_engines = 0;
  std::map<int64_t, int64_t> of_case, of_pinned, of_groups;
};

// Sums of 32 bits, of which some make others wrap.
std::vector<int32_t> random_sums(Dice& dice, const Trial& trial) {
  std::vector<int32_t> sums(kSums ? static_cast<size_t>(trial.config.vectors() * trial.layer.rows()) : 0);
  const int64_t most = dice.from_to(0, 9) == 0 ? INT32_MAX : 1 << 28;
  for (int32_t& sum : sums) sum = static_cast<int32_t>(dice.from_to(-most, most));
  return sums;
}

std::vector<int16_t> input_of(const Trial& trial, std::span<const int16_t> x, std::span<const int32_t> sums) {
  return kSums ? sum_words_of(trial.config, trial.layer, sums) : input_chunks_of(trial.config, trial.layer, x);
}

void load(EngineBench<Model>& bench, const Trial& trial) {
  bench.load_biases(bias_words(trial.layer), biases_of_unit(kCell) * kUnits);
  bench.load_projection(projection_words(trial.config, trial.layer), kBeatWords, trial.config.projection_multipliers() / kBeatWords);
}

std::vector<int32_t> kept_of(const RecurrentState& state) {
  if (kCell == CellKind::kLstm) return state.cell;
  return kCell == CellKind::kGru ? std::vector<int32_t>(state.hidden.begin(), state.hidden.end()) : std::vector<int32_t>{};
}

// Two runs of one engine, the second perhaps from the state of the first, either perhaps from a state that is brought.
bool compare(Dice& dice, std::mt19937_64& random, EngineBench<Model>& bench, Seen& seen) {
  const Trial trial = trial_of(dice, random_config(dice, {Pinned::kNone, Pinned::kNone, Pinned::kNone, Pinned::kHidden, Pinned::kAll}));
  const SbeConfig& config = trial.config;
  load(bench, trial);
  RecurrentState state = zero_state(trial.layer, config.streams);
  const BatchTiming timing = batch_timing(config);
  for (int part = 0; part < 2; ++part) {
    EngineJob job = job_of(trial, dice.from_to(1, 3));
    const bool brought = dice.from_to(0, 2) == 0;
    job.stateful = brought || (part > 0 && dice.from_to(0, 1) == 1);
    if (brought) {
      state = testing_support::random_state(dice, trial.layer, config.streams);
      bench.load_state(state.hidden, kept_of(state), job.settings, kUnits);
      ++seen.loaded_states;
    }
    job.loads_pinned = job.loads_pinned && part == 0;  // it stays
    job.memory_latency = dice.from_to(0, 100);
    const bool pauses = dice.from_to(0, 3) > 0;
    job.memory_pause = pauses ? 0.1 * static_cast<double>(dice.from_to(0, 6)) : 0;
    job.source_pause = pauses ? 0.1 * static_cast<double>(dice.from_to(0, 8)) : 0;
    job.sink_pause = pauses ? 0.1 * static_cast<double>(dice.from_to(0, 8)) : 0;
    RecurrentRun run{.streams = config.streams, .steps = config.steps, .first_step = 0, .lengths = {}};
    if (dice.from_to(0, 1) == 1)
      for (int64_t& valid : job.valid_steps) valid = dice.from_to(0, config.steps);
    run.lengths = job.valid_steps;
    std::vector<int16_t> inputs, expected;
    RecurrentCounters counters;
    for (int64_t batch = 0; batch < job.batches; ++batch) {
      if (!job.stateful) state = zero_state(trial.layer, config.streams);
      const std::vector<int16_t> x = testing_support::random_elements(dice, config.vectors() * config.shape.inputs, 32767);
      const std::vector<int32_t> sums = random_sums(dice, trial);
      run.sums = sums;
      const std::vector<int16_t> chunks = input_of(trial, x, sums);
      inputs.insert(inputs.end(), chunks.begin(), chunks.end());
      BlockedTraffic traffic;
      const std::vector<int16_t> h = blocked_forward(config, trial.layer, trial.image, run, x, state, counters, traffic);
      for (int64_t step = 0; step < config.steps; ++step)
        for (int64_t stream = 0; stream < config.streams; ++stream) {
          const auto* from = h.data() + (stream * config.steps + step) * config.shape.features();
          expected.insert(expected.end(), from, from + config.shape.features());
        }
    }
    job.inputs = inputs;
    const BenchResult result = bench.run(job, random);
    const auto fails = [&](const std::string& why) {
      fmt::print("case {}, run {}: {}\n  {}, {} batches, {}\n", seen.cases, part, why, text_of(config), job.batches,
                 job.stateful ? "stateful" : "from zeros");
      return false;
    };
    if (!result.finished)
      return fails(fmt::format("does not end: {} of {} outputs, {} beats", result.outputs.size(), expected.size(), result.beats));
    if (result.fault || result.bursts_across_pages > 0) return fails("asks for what is not there, or across a page");
    if (result.outputs.size() != expected.size())
      return fails(fmt::format("{} outputs, expected {}", result.outputs.size(), expected.size()));
    for (size_t i = 0; i < expected.size(); ++i)
      if (result.outputs[i] != expected[i]) {
        const auto units = static_cast<size_t>(config.shape.features()), streams = static_cast<size_t>(config.streams);
        return fails(fmt::format(
            "batch {}, step {}, stream {}, unit {}: {}, expected {}", i / units / streams / static_cast<size_t>(config.steps),
            i / units / streams % static_cast<size_t>(config.steps), i / units % streams, i % units, result.outputs[i], expected[i]));
      }
    const int64_t words = job.batches * timing.weight_words + (job.loads_pinned ? trial.image.pinned.words : 0);
    if (result.beats * kBeatWords != words)
      return fails(fmt::format("{} words fetched, the model's are {}", result.beats * kBeatWords, words));
    const std::vector<int32_t> kept = kept_of(state), there = bench.kept(static_cast<int64_t>(kept.size()) / kUnits, kUnits);
    for (size_t i = 0; i < kept.size(); ++i)
      if (there[i] != kept[i]) {
        const auto units = static_cast<size_t>(config.shape.hidden);
        return fails(fmt::format("kept in the tail, stream {}, unit {}: {}, expected {}", i / units, i % units, there[i], kept[i]));
      }
    seen.batches += job.batches;
    seen.values += static_cast<int64_t>(expected.size());
    seen.most_outstanding = std::max(seen.most_outstanding, result.most_outstanding);
    seen.wrapped += counters.sums.accumulator_overflows;
  }
  ++seen.cases;
  ++seen.of_case[config.pinned == Pinned::kNone ? timing.paper_case() : 0];
  ++seen.of_pinned[static_cast<int64_t>(config.pinned)];
  ++seen.of_groups[config.groups()];
  return true;
}

// Batches without pauses.
BenchResult run_freely(Dice& dice, std::mt19937_64& random, EngineBench<Model>& bench, const Trial& trial, int64_t batches,
                       int64_t memory_latency) {
  EngineJob job = job_of(trial, batches);
  job.memory_latency = memory_latency;
  load(bench, trial);
  std::vector<int16_t> inputs;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const std::vector<int16_t> x = testing_support::random_elements(dice, trial.config.vectors() * trial.config.shape.inputs, 16384);
    const std::vector<int16_t> chunks = input_of(trial, x, random_sums(dice, trial));
    inputs.insert(inputs.end(), chunks.begin(), chunks.end());
  }
  job.inputs = inputs;
  return bench.run(job, random);
}

bool compare_step(Dice& dice, std::mt19937_64& random, EngineBench<Model>& bench, Seen& seen) {
  SbeConfig config;
  BatchTiming timing;
  do {
    config = random_config(dice, {Pinned::kAll, Pinned::kHidden});
    timing = batch_timing(config);
  } while (config.steps < 4 || !timing.tail_keeps_up);
  const Trial trial = trial_of(dice, config);
  const BenchResult result = run_freely(dice, random, bench, trial, 1, 0);
  const int64_t lead = config.pinned == Pinned::kAll ? config.input_chunks() : 0;
  const int64_t modelled = config.streams * config.groups() * (lead + config.hidden_chunks()) + timing.stall;
  const size_t step_words = static_cast<size_t>(config.streams * config.shape.features() / kUnits);
  const size_t last = result.output_cycles.size();
  if (!result.finished || last != step_words * static_cast<size_t>(config.steps)) {
    fmt::print("step {}: does not end\n  {}\n", seen.step_engines, text_of(config));
    return false;
  }
  const int64_t measured = result.output_cycles[last - 1] - result.output_cycles[last - 1 - step_words];
  if (measured != modelled) {
    fmt::print("step {}: {} cycles, modelled {} of which it waits {}\n  {}\n", seen.step_engines, measured, modelled, timing.stall,
               text_of(config));
    return false;
  }
  ++seen.step_engines;
  seen.waiting_engines += timing.stall > 0 ? 1 : 0;
  return true;
}

bool compare_batches(Dice& dice, std::mt19937_64& random, EngineBench<Model>& bench, Seen& seen, double& worst) {
  SbeConfig config;
  BatchTiming timing;
  do {
    config = random_config(dice, {Pinned::kNone, Pinned::kNone, Pinned::kHidden});
    timing = batch_timing(config);
    if (kSums && timing.tail_keeps_up && config.vectors() > 8) break;
  } while (!timing.tail_keeps_up || timing.cycles < 400);
  const Trial trial = trial_of(dice, config);
  constexpr int64_t kBatches = 8, kWarm = 4;
  const int64_t latency = dice.from_to(0, 100);
  const BenchResult result = run_freely(dice, random, bench, trial, kBatches, latency);
  const size_t words = static_cast<size_t>(config.vectors() * config.shape.features() / kUnits);
  if (!result.finished || result.output_cycles.size() != words * kBatches) {
    fmt::print("batches {}: do not end\n  {}\n", seen.batch_engines, text_of(config));
    return false;
  }
  const auto end = [&](size_t batch) { return static_cast<double>(result.output_cycles[(batch + 1) * words - 1]); };
  const double measured = (end(kBatches - 1) - end(kWarm - 1)) / (kBatches - kWarm);
  const double modelled = built_cycles(config, latency).batch;
  if (std::fabs(measured - modelled) > 0.01 * modelled) {
    fmt::print("batches {}: {} cycles, modelled {} (planned {}, waits {}), latency {}\n  {}\n", seen.batch_engines, measured, modelled,
               timing.cycles, timing.stall, latency, text_of(config));
    return false;
  }
  worst = std::max(worst, std::fabs(measured / modelled - 1));
  ++seen.batch_engines;
  return true;
}

std::string text_of(const std::map<int64_t, int64_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts) text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", key, count);
  return text;
}

int main_of(int argc, char** argv) {
  std::map<std::string, int64_t> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = std::atoll(argv[i + 1]);
  const auto seed = static_cast<uint32_t>(given.count("--seed") > 0 ? given["--seed"] : 1);
  if (kForms.sigmoid == SigmoidForm::kTable || kForms.tanh == TanhForm::kTable)
    std::ofstream(std::string(kGateTableFile)) << gate_table_text();
  Dice dice(seed);
  std::mt19937_64 random(seed);
  EngineBench<Model> bench;
  Seen seen;
  double worst = 0;
  for (int64_t i = 0; i < given["--cases"]; ++i)
    if (!compare(dice, random, bench, seen)) return 1;
  for (int64_t i = 0; i < given["--steps"]; ++i)
    if (!compare_step(dice, random, bench, seen)) return 1;
  for (int64_t i = 0; i < given["--batches"]; ++i)
    if (!compare_batches(dice, random, bench, seen, worst)) return 1;
  fmt::print(
      "{{\"engine\": \"{}\", \"cases\": {}, \"states_brought\": {}, \"batches\": {}, \"values\": {}, \"paper_case\": {{{}}}, \"pinned\": "
      "{{{}}}, \"groups\": "
      "{{{}}}, "
      "\"most_bursts_outstanding\": {}, \"wrapped_sums\": {}, \"step_engines\": {}, \"of_which_wait\": {}, \"batch_engines\": {}, "
      "\"worst_batch\": {:.6f}}}\n",
      MILLRACE_NAME, seen.cases, seen.loaded_states, seen.batches, seen.values, text_of(seen.of_case), text_of(seen.of_pinned),
      text_of(seen.of_groups), seen.most_outstanding, seen.wrapped, seen.step_engines, seen.waiting_engines, seen.batch_engines, worst);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::main_of(argc, argv); }
