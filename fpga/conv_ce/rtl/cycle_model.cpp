#include "fpga/conv_ce/rtl/cycle_model.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

// From an issued step to its result in the output FIFO.
constexpr int64_t kPipelineCycles = 7;
// From a captured sum to the gradient buffer.
constexpr int64_t kCaptureCycles = 6;
// From a word of the row sorter's memory that is read to its beat.
constexpr int64_t kSorterReadCycles = 2;

// Likewise of the adapter.
constexpr int64_t kAdapterReadCycles = 2;
// Slots of channels in it.
constexpr int64_t kAdapterSlots = 4;

// Sweeps whose results wait to be sent, in EB.
constexpr int64_t kErrorSlots = 4;

struct Walk {
  int64_t steps;        // of the window, downwards
  int64_t parts;        // groups of results that a step makes, one after the other
  int64_t part_sweeps;  // sweeps of a part; results come with the last one
  int64_t sweep_cycles;
  int64_t row_beats;  // of one row of the map the window moves on
  int64_t map_rows;
  int64_t stride;
  int64_t first_top;
  int64_t window_rows;
  int64_t bank_rows;  // rows the line buffer holds
  // EB alone: what a part sends, per row of results; rows of the first, of every, and of the last step.
  int64_t sent_beats = 0;
  int64_t first_rows = 0, rows = 0, last_rows = 0;
};

// The rows below `step`'s window, over all samples, of which the line buffer need not keep any.
int64_t rows_released(const Walk& walk, int64_t step) {
  const int64_t top = walk.first_top + step % walk.steps * walk.stride;
  return step / walk.steps * walk.map_rows + std::clamp(top, int64_t{0}, walk.map_rows);
}

int64_t rows_needed(const Walk& walk, int64_t step) {
  const int64_t bottom = walk.first_top + step % walk.steps * walk.stride + walk.window_rows;
  return step / walk.steps * walk.map_rows + std::clamp(bottom, int64_t{0}, walk.map_rows);
}

int64_t rows_of_step(const Walk& walk, int64_t step) {
  const int64_t local = step % walk.steps;
  if (local == 0) return walk.first_rows;
  return local == walk.steps - 1 ? walk.last_rows : walk.rows;
}

// Step after step: a step begins when the step before is over and its rows are in; a row comes in when the one before is in
// and a bank is free; a part's last sweep begins when there is a slot for its results. Rows and parts are counted, not cycles.
// What stands behind the last result is in neither.
struct WalkEnds {
  int64_t last = 0, before = 0;  // of the last sample, and of the one before
  int64_t of_last() const { return last - before; }
};
WalkEnds ends_of(const Walk& walk, int64_t samples) {
  const int64_t all_steps = samples * walk.steps;
  std::vector<int64_t> begins(to_size(all_steps) + 1, 0);  // when a step may begin, but for its rows
  std::vector<int64_t> sent;                               // when a part's slot is free again
  int64_t releasing = 0;                                   // the step that must have begun for the next row to have a bank
  int64_t row = 0;
  int64_t arrived = 0;
  int64_t clock = 0, before = 0;
  for (int64_t step = 0; step < all_steps; ++step) {
    for (; row < rows_needed(walk, step); ++row) {
      while (rows_released(walk, releasing) + walk.bank_rows <= row) ++releasing;
      arrived = std::max(arrived, fast_item(begins, releasing)) + walk.row_beats;
    }
    clock = std::max(clock, arrived);
    for (int64_t part = 0; part < walk.parts; ++part) {
      clock += (walk.part_sweeps - 1) * walk.sweep_cycles;
      if (walk.sent_beats > 0 && static_cast<int64_t>(sent.size()) >= kErrorSlots) clock = std::max(clock, sent[sent.size() - kErrorSlots]);
      clock += walk.sweep_cycles;
      if (walk.sent_beats > 0) {
        const int64_t ready = std::max(clock + kPipelineCycles, sent.empty() ? 0 : sent.back());
        sent.push_back(ready + walk.sent_beats * rows_of_step(walk, step));
      }
    }
    begins[to_size(step) + 1] = clock;
    if (step + 1 == all_steps - walk.steps) before = sent.empty() ? clock : sent.back();
  }
  return {sent.empty() ? clock : sent.back(), before};
}

int64_t rows_of_banks(int bits) { return int64_t{1} << bits; }

// Over the columns of a row.
int64_t sweep_cycles(int64_t load_words, int64_t columns) { return std::max(columns, load_words + 1); }

// Errors come in at a beat per cycle too.
int64_t gradient_compute(const EngineSweeps& sweeps, int64_t columns) {
  const int64_t sweep = std::max({columns, sweeps.load_words, int64_t{2}});
  return std::max(sweeps.output_groups * sweeps.input_sweeps * sweep, sweeps.output_groups * columns);
}

int64_t sweeps_of_row(const EngineSweeps& sweeps) { return sweeps.output_groups * sweeps.input_sweeps; }

int64_t activation_beats(const EngineSweeps& sweeps, const ConvolutionShape& shape) {
  return sweeps.input_groups * shape.width * sweeps.stride;
}

}  // namespace

EngineSweeps sweeps_of(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return {.input_groups = engine.groups_of_inputs(shape.inputs),
          .output_groups = engine.groups_of_outputs(shape.outputs),
          .input_sweeps = engine.input_sweeps(shape.inputs),
          .load_words = engine.load_words(),
          .stride = engine.stride};
}

int64_t forward_sweep_cycles(int64_t load_words, int64_t columns) { return sweep_cycles(load_words, columns); }

int64_t forward_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, int64_t columns) {
  return std::max(sweeps_of_row(sweeps) * sweep_cycles(sweeps.load_words, columns), activation_beats(sweeps, shape));
}

int64_t error_back_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, const ErrorBackSteps& steps, int64_t columns) {
  // Of every step, stride rows leave; and a part's results wait in a slot from its last sweep until they are sent.
  const int64_t sweep = sweep_cycles(sweeps.load_words, steps.columns);
  const int64_t in_slot = sweep + kPipelineCycles + shape.width * sweeps.stride;
  return std::max({sweeps_of_row(sweeps) * sweep, activation_beats(sweeps, shape), sweeps.output_groups * columns,
                   divided_up(sweeps.input_groups * in_slot, kErrorSlots)});
}

int64_t gradient_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, int64_t columns) {
  return std::max(gradient_compute(sweeps, columns), activation_beats(sweeps, shape));
}

int64_t forward_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return forward_row_cycles(sweeps_of(engine, shape), shape, shape.out_width());
}

int64_t error_back_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return error_back_row_cycles(sweeps_of(engine, shape), shape, error_back_steps(shape), shape.out_width());
}

int64_t gradient_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return gradient_row_cycles(sweeps_of(engine, shape), shape, shape.out_width());
}

namespace {

Walk forward_walk(const EngineParallelism& engine, const ConvolutionShape& shape) {
  const EngineMemories memories = engine_memories(engine, shape);
  return {.steps = shape.out_height(),
          .parts = 1,
          .part_sweeps = sweeps_of_row(sweeps_of(engine, shape)),
          .sweep_cycles = sweep_cycles(engine.load_words(), shape.out_width()),
          .row_beats = engine.groups_of_inputs(shape.inputs) * shape.width,
          .map_rows = shape.height,
          .stride = engine.stride,
          .first_top = -shape.pad_h,
          .window_rows = engine.kernel,
          .bank_rows = rows_of_banks(memories.row_banks)};
}

}  // namespace

int64_t forward_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(forward_walk(engine, shape), samples).last + kPipelineCycles;
}

int64_t forward_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(forward_walk(engine, shape), samples + 1).of_last();
}

namespace {

Walk error_back_walk(const EngineParallelism& engine, const ConvolutionShape& shape) {
  const EngineMemories memories = engine_memories(engine, shape);
  const ErrorBackSteps steps = error_back_steps(shape);
  return {.steps = steps.rows,
          .parts = engine.groups_of_inputs(shape.inputs),
          .part_sweeps = engine.groups_of_outputs(shape.outputs) / engine.channel_groups,
          .sweep_cycles = sweep_cycles(engine.load_words(), steps.columns),
          .row_beats = engine.groups_of_outputs(shape.outputs) * shape.out_width(),
          .map_rows = shape.out_height(),
          .stride = 1,
          .first_top = steps.first - engine.span() + 1,
          .window_rows = engine.span(),
          .bank_rows = rows_of_banks(memories.error_row_banks),
          .sent_beats = shape.width,
          .first_rows = steps.first_block_rows,
          .rows = engine.stride,
          .last_rows = steps.last_phase + 1};
}

}  // namespace

int64_t error_back_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(error_back_walk(engine, shape), samples).last + 1;
}

int64_t error_back_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(error_back_walk(engine, shape), samples + 1).of_last();
}

namespace {

// Over the rows that FP reads, with every sum of a row in one sweep.
Walk gradient_walk(const EngineParallelism& engine, const ConvolutionShape& shape) {
  Walk walk = forward_walk(engine, shape);
  walk.part_sweeps = 1;
  walk.sweep_cycles = gradient_compute(sweeps_of(engine, shape), shape.out_width());
  return walk;
}

}  // namespace

int64_t gradient_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(gradient_walk(engine, shape), samples).last + kCaptureCycles + engine.load_words();
}

int64_t gradient_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples) {
  return ends_of(gradient_walk(engine, shape), samples + 1).of_last();
}

namespace {

bool gathers_overlapping(const PoolingWindow& window) { return window.is_large() && window.overlaps(); }

// A row of the map into large windows that overlap: a beat per cycle, then what it leaves behind. A word that was written is read a cycle
// later, which holds up a window that is alone in its row and ends with its first pixel.
int64_t gathered_row_cycles(const PoolingWindow& window, int64_t groups) {
  const int64_t row = groups * (window.width + columns_left_behind(window));
  return groups * window.out_width == 1 && window.width == 1 ? 2 : row;
}

// Likewise back: what begins before the row is taken first, but for the last one.
int64_t spread_row_cycles(const PoolingWindow& window, int64_t groups) { return groups * (window.width + window.pad_w / window.stride_w); }

}  // namespace

int64_t pooling_row_cycles(const PoolingWindow& window, int64_t groups) {
  const int64_t of_map = gathers_overlapping(window) ? gathered_row_cycles(window, groups) : groups * window.width;
  return std::max(groups * window.out_width, of_map * window.stride_h);
}

int64_t unpooling_row_cycles(const PoolingWindow& window, int64_t groups) {
  if (gathers_overlapping(window)) return std::max(spread_row_cycles(window, groups) * window.stride_h, groups * window.out_width);
  return groups * std::max({unpooling_steps(window).columns, window.width * window.stride_h, window.out_width});
}

int64_t pooling_cycles(const PoolingWindow& window, int64_t groups) {
  const int64_t windows = groups * window.out_width * window.out_height;
  if (!gathers_overlapping(window)) return std::max(groups * window.width * window.height, windows);
  return gathered_row_cycles(window, groups) * window.height + rows_left_behind(window) * groups * window.out_width;
}

int64_t unpooling_cycles(const PoolingWindow& window, int64_t groups) {
  const int64_t windows = groups * window.out_width * window.out_height;
  if (gathers_overlapping(window)) return std::max(spread_row_cycles(window, groups) * window.height, windows);
  const ErrorBackSteps steps = unpooling_steps(window);
  return std::max({groups * window.width * window.height, windows, groups * steps.columns * steps.rows});
}

int64_t sorter_row_cycles(const BeatOrder& order) { return order.groups() * order.width; }

// Block after block: a block comes in when the one before is in and banks for its rows are free; its rows leave when it is in
// and the rows before have left.
int64_t sorter_cycles(const BeatOrder& order, const SorterMemory& memory, int64_t samples) {
  const int64_t row_cycles = sorter_row_cycles(order);
  std::vector<int64_t> left;  // when each row had left
  int64_t clock = 0;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t row = 0; row < order.height;) {
      const int64_t rows = std::min(row == 0 ? order.first_block_rows : order.block_rows, order.height - row);
      const int64_t to_leave = static_cast<int64_t>(left.size()) + rows - rows_of_banks(memory.row_banks);
      if (to_leave > 0) clock = std::max(clock, fast_item(left, to_leave - 1));
      clock += rows * row_cycles;
      for (int64_t i = 0; i < rows; ++i) left.push_back(std::max(clock, left.empty() ? 0 : left.back()) + row_cycles);
      row += rows;
    }
  return left.back() + kSorterReadCycles;
}

namespace {

// adapter_walk.sv, a group of channels at a time.
class AdapterWalk {
 public:
  AdapterWalk(const BeatOrder& order, int64_t lanes, int banks) : order_(order), lanes_(lanes), banks_(banks) {}

  int64_t slot() const { return slot_; }
  int64_t block() const { return block_; }
  int64_t channel() const { return channel_; }
  int64_t next_channel() const { return std::min(channel_ + lanes_, order_.channels); }
  int64_t pixels() const { return rows() * order_.width; }
  int64_t samples() const { return samples_; }
  // Of the sample, this one among them, that have as many rows as most.
  int64_t equal_blocks() const { return rows() == order_.block_rows ? (order_.height - row_) / order_.block_rows : 0; }

  // So many equal blocks, each over so many slots.
  void skip(int64_t blocks, int64_t slots) {
    slot_ += blocks * slots;
    first_slot_ += blocks * slots;
    block_ += blocks;
    row_ += blocks * order_.block_rows;
  }

  void advance() {
    const int64_t last = next_channel();
    const bool ends = last == order_.channels;
    slot_ = first_slot_ + ((ends ? last + rows_of_banks(banks_) - 1 : last) >> banks_);
    channel_ = ends ? 0 : last;
    if (!ends) return;
    first_slot_ = slot_;
    ++block_;
    row_ += rows();
    if (row_ < order_.height) return;
    row_ = 0;
    ++samples_;
  }

 private:
  int64_t rows() const { return std::min(row_ == 0 ? order_.first_block_rows : order_.block_rows, order_.height - row_); }

  BeatOrder order_;
  int64_t lanes_;
  int banks_;
  int64_t slot_ = 0, first_slot_ = 0, block_ = 0, channel_ = 0, row_ = 0, samples_ = 0;
};

// When the reader begins a block: what it finds, as seen from there.
struct AdapterPhase {
  int64_t ahead = 0, channel = 0, slots = 0, written = 0, freed = 0;  // of the writer; slots that are free again
  std::array<int64_t, 2 * kAdapterSlots> when{};                      // by slot
  bool equal = false;                                                 // blocks of both have as many rows as most
  bool operator==(const AdapterPhase&) const = default;
};

// When the last group is out, of the last sample and of the one before.
struct AdapterEnds {
  int64_t last = 0, before = 0;
};

AdapterEnds adapter_ends(const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory, int64_t samples) {
  AdapterWalk writer(in, in.lanes, memory.banks), reader(in, out_lanes, memory.banks);
  int64_t written = 0, read = 0;                   // when the last group was in, and out
  std::array<int64_t, 2 * kAdapterSlots> freed{};  // when each of the last slots was the reader's first
  int64_t slots_freed = 1;
  const auto place = [&](int64_t slot) -> int64_t& { return freed[to_size(slot) % freed.size()]; };
  int64_t before = 0;
  AdapterPhase last_phase;
  int64_t last_read = 0, last_slot = 0;
  // Where a block went as the one before, so will all that are equal.
  const auto skip_equal_blocks = [&] {
    AdapterPhase phase{.ahead = writer.block() - reader.block(),
                       .channel = writer.channel(),
                       .slots = writer.slot() - reader.slot(),
                       .written = written - read,
                       .freed = slots_freed - reader.slot(),
                       .when = {},
                       .equal = std::min(reader.equal_blocks(), writer.equal_blocks()) > 0};
    for (int64_t i = 0; i < std::ssize(freed); ++i) fast_item(phase.when, i) = place(reader.slot() + i) - read;
    const int64_t blocks = phase.equal ? std::min(reader.equal_blocks(), writer.equal_blocks()) - 1 : 0;
    if (blocks > 0 && phase == last_phase) {
      const int64_t slots = reader.slot() - last_slot, cycles = blocks * (read - last_read);
      const std::array<int64_t, 2 * kAdapterSlots> before_skip = freed;
      for (int64_t i = 0; i < std::ssize(freed); ++i) place(i + blocks * slots) = fast_item(before_skip, i) + cycles;
      reader.skip(blocks, slots);
      writer.skip(blocks, slots);
      slots_freed += blocks * slots;
      written += cycles;
      read += cycles;
    }
    last_phase = phase;
    last_read = read;
    last_slot = reader.slot();
  };
  while (reader.samples() < samples) {
    if (reader.block() != writer.block() || reader.next_channel() <= writer.channel()) {
      read = std::max(read, written) + reader.pixels();
      if (reader.samples() < samples - 1) before = read;
      const int64_t block = reader.block();
      reader.advance();
      for (; slots_freed <= reader.slot(); ++slots_freed) place(slots_freed) = read;
      if (reader.block() != block && reader.samples() < samples) skip_equal_blocks();
      continue;
    }
    // A beat may reach into the slot behind its own.
    const int64_t wanted = std::max<int64_t>(writer.slot() + 2 - kAdapterSlots, 0);
    MILLRACE_CHECK(wanted < slots_freed && wanted + std::ssize(freed) >= slots_freed, "slot {} of an adapter that has freed {}", wanted,
                   slots_freed);
    written = std::max(written, place(wanted)) + writer.pixels();
    writer.advance();
  }
  return {read, before};
}

}  // namespace

int64_t adapter_cycles(const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory, int64_t samples) {
  return adapter_ends(in, out_lanes, memory, samples).last + kAdapterReadCycles;
}

int64_t adapter_cycles_of_next(const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory, int64_t samples) {
  const AdapterEnds ends = adapter_ends(in, out_lanes, memory, samples + 1);
  return ends.last - ends.before;
}

}  // namespace millrace
