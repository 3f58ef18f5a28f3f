#include "fpga/sbe/timing.h"

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/recurrence/step_stall.h"

namespace millrace {

namespace {

constexpr int64_t kMostRounds = 16;

// What one batch does, in order: transfers of up to kMostSlots blocks, then cycles of the multipliers.
struct Job {
  std::array<int64_t, kMostSlots> words{};
  int64_t transfers = 0;
  int64_t cycles = 0;
};

struct Batch {
  std::vector<Job> jobs;  // those of one step are listed once
  size_t per_step = 0;    // how many at the end are done `steps` times
  int64_t steps = 1;
  int64_t output_words = 0;
  BatchTiming timing;  // all but cycles
};

int64_t resident_blocks(const SbeConfig& config) { return std::max<int64_t>(2, config.slots - 1); }

StepWalk walk_of(const SbeConfig& config, int64_t lead) {
  return {.hidden = config.shape.hidden,
          .groups = config.groups(),
          .units_per_group = config.units_per_group(),
          .columns = config.columns,
          .tail_units = config.tail_units,
          .latency = config.latency,
          .lead = lead,
          .hidden_chunks = config.hidden_chunks(),
          .streams = config.streams,
          .projection = config.shape.projection,
          .projection_latency = kProjectionLatency};
}

Batch batch_of(const SbeConfig& config) {
  MILLRACE_CHECK(config.slots <= kMostSlots, "{} slots", config.slots);
  Batch batch;
  const std::vector<ColumnBlock> blocks = blocks_of(config);
  const int64_t vectors = config.vectors(), groups = config.groups();
  const auto weights = [&](const ColumnBlock& block) { return block.chunks * config.columns * config.shape.rows(); };
  const auto inputs = [&](const ColumnBlock& block) {
    const int64_t columns = std::min((block.chunks - block.hidden) * config.columns, config.shape.inputs);
    return config.inputs_share_bus ? columns : 0;
  };
  const auto add_transfer = [&](Job& job, int64_t weight_words, int64_t input_words) {
    fast_item(job.words, job.transfers++) = weight_words + input_words;
    batch.timing.weight_words += weight_words;
    batch.timing.words += weight_words + input_words;
  };
  std::vector<ColumnBlock> hidden;
  int64_t lead = 0;
  for (const ColumnBlock& block : blocks) {
    if (block.hidden > 0) {
      hidden.push_back(block);
      lead += block.chunks - block.hidden;
      continue;
    }
    Job job{.cycles = vectors * groups * block.chunks};
    add_transfer(job, weights(block), vectors * inputs(block));
    batch.jobs.push_back(job);
  }
  if (config.pinned == Pinned::kAll) lead = config.input_chunks();
  const StepWalk walk = walk_of(config, lead);
  batch.timing.stall = step_stall(walk);
  batch.timing.tail_keeps_up = tail_keeps_up(walk);
  batch.timing.hidden_blocks = static_cast<int64_t>(hidden.size());
  const int64_t waits = config.steps * batch.timing.stall;
  if (config.pinned != Pinned::kNone) {
    Job job{.cycles = vectors * walk.issue_cycles() + waits};
    if (config.pinned == Pinned::kAll && config.inputs_share_bus) add_transfer(job, 0, vectors * config.shape.inputs);
    batch.jobs.push_back(job);
  } else if (static_cast<int64_t>(hidden.size()) <= resident_blocks(config)) {
    Job job{.cycles = vectors * walk.issue_cycles() + waits};
    for (const ColumnBlock& block : hidden) add_transfer(job, weights(block), vectors * inputs(block));
    batch.jobs.push_back(job);
  } else {
    const BatchTiming before = batch.timing;
    for (size_t i = 0; i < hidden.size(); ++i) {
      Job job{.cycles = config.streams * groups * hidden[i].chunks + (i == 0 ? batch.timing.stall : 0)};
      add_transfer(job, weights(hidden[i]), config.streams * inputs(hidden[i]));
      batch.jobs.push_back(job);
    }
    batch.per_step = hidden.size();
    batch.steps = config.steps;
    batch.timing.words = before.words + config.steps * (batch.timing.words - before.words);
    batch.timing.weight_words = before.weight_words + config.steps * (batch.timing.weight_words - before.weight_words);
  }
  if (config.inputs_share_bus) batch.output_words = vectors * config.shape.features();
  batch.timing.words += batch.output_words;
  return batch;
}

class Slots {
 public:
  Slots(int64_t slots, int64_t words_per_cycle) : slots_(slots), words_per_cycle_(words_per_cycle) {}

  void run(const Batch& batch) {
    const size_t once = batch.jobs.size() - batch.per_step;
    for (size_t i = 0; i < once; ++i) run(batch.jobs[i]);
    if (batch.per_step > 0)
      for (int64_t step = 0; step < batch.steps; ++step)
        for (size_t i = once; i < batch.jobs.size(); ++i) run(batch.jobs[i]);
    bus_ += divided_up(batch.output_words, words_per_cycle_);
  }

  int64_t done() const { return array_; }
  // What happens next depends on nothing else. Which slot is free when does, in any order.
  std::array<int64_t, kMostSlots + 1> state() const {
    std::array<int64_t, kMostSlots + 1> state{};
    for (int64_t i = 0; i < slots_; ++i) fast_item(state, i) = fast_item(free_, i) - array_;
    std::sort(state.begin(), state.begin() + slots_);
    state.back() = bus_ - array_;
    return state;
  }

 private:
  void run(const Job& job) {
    std::array<bool, kMostSlots> taken{};
    int64_t there = 0;
    for (int64_t transfer = 0; transfer < job.transfers; ++transfer) {
      size_t slot = kMostSlots;
      for (size_t i = 0; i < to_size(slots_); ++i)
        if (!taken[i] && (slot == kMostSlots || free_[i] < free_[slot])) slot = i;
      bus_ = there = std::max(bus_, free_[slot]) + divided_up(fast_item(job.words, transfer), words_per_cycle_);
      taken[slot] = true;
    }
    array_ = std::max(array_, there) + job.cycles;
    for (size_t i = 0; i < to_size(slots_); ++i)
      if (taken[i]) free_[i] = array_;
  }

  int64_t slots_;
  int64_t words_per_cycle_;
  std::array<int64_t, kMostSlots> free_{};
  int64_t bus_ = 0;
  int64_t array_ = 0;
};

}  // namespace

BatchTiming batch_timing(const SbeConfig& config) {
  const Batch batch = batch_of(config);
  BatchTiming timing = batch.timing;
  Slots slots(config.slots, config.words_per_cycle);
  std::array<std::array<int64_t, kMostSlots + 1>, kMostRounds> states;
  std::array<int64_t, kMostRounds> marks{};
  // Once a state comes back, all that follows does.
  for (size_t round = 0; round < kMostRounds; ++round) {
    slots.run(batch);
    states[round] = slots.state();
    marks[round] = slots.done();
    for (size_t before = round; before-- > 0;)
      if (states[before] == states[round]) {
        timing.cycles = static_cast<double>(marks[round] - marks[before]) / static_cast<double>(round - before);
        timing.first_cycles = static_cast<double>(marks[0]);
        return timing;
      }
  }
  constexpr size_t kHalf = kMostRounds / 2;
  timing.cycles = static_cast<double>(marks.back() - marks[kHalf - 1]) / kHalf;
  timing.first_cycles = static_cast<double>(marks[0]);
  return timing;
}

BatchTiming batch_bound(const SbeConfig& config) {
  const int64_t inputs = config.input_chunks(), hidden = config.hidden_chunks(), chunk = config.columns, rows = config.shape.rows();
  const int64_t vectors = config.vectors();
  BatchTiming timing;
  int64_t lead = 0;         // chunks of x that share the blocks of h
  int64_t input_words = 0;  // of a vector
  if (config.pinned == Pinned::kAll) {
    lead = inputs;
    input_words = config.shape.inputs;
  } else {
    const int64_t n = config.block_chunks;
    const int64_t full = inputs / n, rest = inputs % n;  // blocks of x alone, and chunks of x beyond them
    input_words = full * std::min(n * chunk, config.shape.inputs) + std::min(rest * chunk, config.shape.inputs);
    if (config.pinned == Pinned::kHidden) {
      timing.weight_words = inputs * chunk * rows;
    } else {
      lead = rest;
      timing.hidden_blocks = divided_up(rest + hidden, n);
      const bool stay = timing.hidden_blocks <= resident_blocks(config);
      timing.weight_words = (full * n + (stay ? 1 : config.steps) * (rest + hidden)) * chunk * rows;
    }
  }
  const StepWalk walk = walk_of(config, lead);
  timing.stall = step_stall(walk);
  timing.tail_keeps_up = tail_keeps_up(walk);
  timing.words = timing.weight_words + (config.inputs_share_bus ? vectors * (input_words + config.shape.features()) : 0);
  const int64_t work = vectors * config.groups() * (inputs + hidden) + config.steps * timing.stall;
  timing.cycles = static_cast<double>(std::max(work, divided_up(timing.words, config.words_per_cycle)));
  return timing;
}

double closed_batch_cycles(const SbeConfig& config) {
  const std::vector<ColumnBlock> blocks = blocks_of(config);
  MILLRACE_CHECK(config.pinned == Pinned::kNone && config.slots == 2 && !config.inputs_share_bus, "closed forms of what is streamed");
  const int64_t chunks = blocks.front().chunks;
  const auto is_hidden = [](const ColumnBlock& block) { return block.hidden > 0; };
  const int64_t m = std::count_if(blocks.begin(), blocks.end(), is_hidden);
  const int64_t x = static_cast<int64_t>(blocks.size()) - m;
  int64_t lead = 0;
  for (const ColumnBlock& block : blocks)
    if (is_hidden(block)) lead += block.chunks - block.hidden;
  const int64_t stall = step_stall(walk_of(config, lead));
  const int64_t load = divided_up(chunks * config.columns * config.shape.rows(), config.words_per_cycle);
  const int64_t work = config.vectors() * config.groups() * chunks;
  const int64_t waits = config.steps * stall;
  if (m == 1)
    return static_cast<double>((x + 1) * std::max(load, work) + (work >= load ? waits : std::max<int64_t>(0, waits - (load - work))));
  if (m == 2) return static_cast<double>((x + 2) * std::max(load, work) + 2 * std::min(load, work) + waits);
  return static_cast<double>(x * std::max(load, work) + config.steps * m * std::max(load, config.streams * config.groups() * chunks));
}

}  // namespace millrace
