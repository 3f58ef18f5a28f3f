// What the beginnings and ends in a RowTiming wait for: which of the events before, and how long after each. Internal to fpga/conv_ce.
//
//   const RowEvents events(network, /*unlimited=*/false);
//   events.list({.entity = 3, .ends = true, .unit = 7}, sink);
//   // sink.after(event, seconds, via): not before `seconds` after that event
//   // sink.after_passing(rows, via):   not before so many rows have passed a stream
//
// Who waits for whom follows from counts alone, never from times, and is the same for every sample but for where it lies: a run needs it
// for one period of samples (row_walk.h). What waits for nothing (rows before the first sample, a memory with room for all) is not named.
// Borrows the network. A sink that asks for times may be given any event of the run.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/index.h"
#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {

// The beginning or the end of a unit of a stream, or of a step of a stage; stages are numbered behind all streams.
struct RowEvent {
  size_t entity = 0;
  bool ends = false;
  int64_t unit = 0;  // over all samples
};

// The queue whose room is waited for, -1: none; and what is added at the end.
struct RowVia {
  int64_t queue = -1;
  double tail = 0;
};

// Rows of a stream, `above` + `more`, less the rooms of queues one after the other: added up in this order, they are the same rows whoever
// adds them up.
struct RowsPassing {
  struct Less {
    double rows = 0;
    const Less* before = nullptr;
  };
  size_t stream = 0;
  int64_t above = 0;
  double more = 0;
  const Less* less = nullptr;  // the last of them
  double amount = 0;           // what is left
  bool counts_units = false;   // instead of rows
  bool soon = false;           // of a unit that has not ended, as if it went on without a stop
  double least = 0;            // seconds of a unit without a stop

  static RowsPassing of(int64_t above, double more = 0) {
    return {.above = above, .more = more, .amount = static_cast<double>(above) + more};
  }
  bool is_whole() const;  // an integer, whatever `above` is
};

// How far a unit has to be.
struct UnitPassed {
  int64_t unit = -1;  // -1: nothing has to pass
  double part = 1;
  bool ended = true;
};
inline constexpr double kUnitRounding = 1e-9;
// Of the unit that so many units end in, how much they have of it; not more than 0: they do not end in it.
inline double part_of_unit(double units, int64_t unit) {
  const double part = units - static_cast<double>(unit);
  return part > kUnitRounding && part <= 1 + kUnitRounding ? std::min(part, 1.0) : 0;
}
inline bool is_whole_unit(double part) { return part > 1 - kUnitRounding; }
inline UnitPassed unit_passed(double units, bool soon) {
  if (units <= kUnitRounding) return {};
  // The integer before: all are positive.
  auto unit = static_cast<int64_t>(units - kUnitRounding);
  if (static_cast<double>(unit) >= units - kUnitRounding) --unit;
  const double part = std::min(units - static_cast<double>(unit), 1.0);
  return {unit, part, is_whole_unit(part) && !soon};
}

class RowEvents {
 public:
  struct Stream {
    RowBlocks blocks;
    int64_t of_sample = 1;     // units
    bool single_rows = false;  // a unit is a row
    bool moves = false;        // is not another one's
    double row_seconds = 0;
    std::vector<size_t> makers;                      // stages
    std::vector<size_t> adders;                      // stages that it is added in
    std::vector<std::pair<size_t, size_t>> readers;  // stages and their windows
    std::vector<size_t> from, into;                  // queues
    std::optional<size_t> behind;                    // scores

    int64_t unit_of(int64_t row) const { return single_rows ? row : blocks.unit_of(row); }
    int64_t rows_to(int64_t unit) const { return single_rows ? unit : blocks.rows_to(unit); }
    double in_units(double rows) const;
    double block_rows() const { return static_cast<double>(std::max(blocks.first_block_rows, blocks.block_rows)); }
  };

  // `unlimited`: memories that wait have room for all.
  RowEvents(const RowTiming& network, bool unlimited);

  // Samples after which everything has the same place again.
  int64_t samples_of_period() const { return period_; }
  size_t entities() const { return streams_.size() + stages_.size(); }
  size_t streams() const { return streams_.size(); }
  const Stream& stream(size_t index) const { return streams_[index]; }
  size_t same(size_t stream) const;
  // Stages whose steps serve several samples: a pass. Whether all passes serve the same ones, and make nothing.
  bool is_pass(size_t entity) const { return entity >= streams_.size() && stages_[entity - streams_.size()].given->samples_of_pass > 1; }
  bool passes_end_alone() const;
  bool is_read_in_passes(size_t stream) const;
  // Units or steps of so many samples.
  int64_t units_of(size_t entity, int64_t samples) const;
  const std::vector<RowQueue>& queues() const { return queues_; }

  template <typename Sink>
  void list(const RowEvent& event, Sink& sink) const {
    if (event.entity >= streams_.size())
      event.ends ? list_step_end(event.entity - streams_.size(), event.unit, sink)
                 : list_step_begin(event.entity - streams_.size(), event.unit, sink);
    else
      event.ends ? list_end(event.entity, event.unit, sink) : list_begin(event.entity, event.unit, sink);
  }

 private:
  struct Stage {
    std::vector<RowWindow> reads;
    std::optional<size_t> adds, out;  // streams
    const RowStage* given = nullptr;
  };

  void check_periods() const;
  RowEvent step_begin(size_t stage, int64_t step) const { return {streams_.size() + stage, false, step}; }
  RowEvent step_end(size_t stage, int64_t step) const { return {streams_.size() + stage, true, step}; }
  // Holds less than a block: both sides pass it together.
  bool is_short(const RowQueue& queue) const { return !queue.sorts && queue.rows < streams_[queue.out].block_rows(); }

  static int64_t rows_at(const RowWindow& window, int64_t step, int64_t row) {
    const int64_t top = window.first_top + (step % window.steps + window.missing_steps) / window.steps_of_window * window.stride;
    return step / window.steps * window.map_rows + std::clamp(top + row, int64_t{0}, window.map_rows);
  }
  // The step that has to be over for rows up to `rows` to have banks; -1: none.
  static int64_t step_before(const RowWindow& window, int64_t rows);

  // Of a queue's room, when rows may have come in up to those.
  template <typename Sink>
  void list_room(size_t index, RowsPassing rows, double tail, Sink& sink) const {
    const RowQueue& queue = queues_[index];
    if (unlimited_ && queue.waits) return;
    const RowVia via{static_cast<int64_t>(index), tail};
    const Stream& out = streams_[queue.out];
    rows.stream = queue.out;
    if (queue.sorts) {
      // Banks are free once the last beat is read: what is on its way out by then is no longer in them.
      const auto row = static_cast<int64_t>(rows.amount - queue.rows) - 1;
      if (row >= 0) sink.after({queue.out, true, out.unit_of(row)}, -queue.latency, via);
      return;
    }
    const RowsPassing::Less less{queue.rows, rows.less};
    rows.less = &less;
    rows.amount -= queue.rows;
    rows.soon = is_short(queue);
    rows.least = out.block_rows() * out.row_seconds;
    sink.after_passing(rows, via);
    if (rows.soon) list_room_behind(queue.out, rows, tail, sink);
  }
  // Rows of a stream may pass it: whoever stands before a few of its beats is held up as long.
  template <typename Sink>
  void list_room_behind(size_t stream, const RowsPassing& rows, double tail, Sink& sink) const {
    for (const size_t into : streams_[stream].into)
      if (!queues_[into].sorts) list_room(into, rows, tail, sink);
  }

  template <typename Sink>
  void list_begin(size_t index, int64_t unit, Sink& sink) const {
    const Stream& stream = streams_[index];
    const int64_t above = stream.rows_to(unit), below = stream.rows_to(unit + 1);
    if (unit > 0) sink.after({index, true, unit - 1}, 0, {});
    for (const size_t maker : stream.makers)
      sink.after(step_begin(maker, unit), stages_[maker].given->first + stages_[maker].given->latency, {});
    for (const size_t from : stream.from) {
      const RowQueue& queue = queues_[from];
      if (queue.sorts)
        sink.after({queue.in, true, streams_[queue.in].unit_of(below - 1)}, queue.latency, {});
      else
        sink.after({queue.in, false, unit}, queue.latency, {});
    }
    if (stream.behind && unit % stream.of_sample == 0) {
      const int64_t units = streams_[*stream.behind].of_sample;
      sink.after({*stream.behind, true, (unit / stream.of_sample + 1) * units - 1}, 0, {});
    }
    for (const auto& [stage, read] : stream.readers)
      if (const int64_t step = step_before(stages_[stage].reads[read], below); step >= 0) sink.after(step_end(stage, step), 0, {});
    for (const size_t into : stream.into) list_room(into, RowsPassing::of(queues_[into].sorts ? below : above), 0, sink);
    // Sums of a step go on after its last partial sum was taken.
    for (const size_t adder : stream.adders)
      if (unit > 0) sink.after(step_end(adder, unit - 1), -stages_[adder].given->first, {});
  }

  template <typename Sink>
  void list_end(size_t index, int64_t unit, Sink& sink) const {
    const Stream& stream = streams_[index];
    const int64_t above = stream.rows_to(unit), below = stream.rows_to(unit + 1);
    sink.after({index, false, unit}, static_cast<double>(below - above) * stream.row_seconds, {});
    for (const size_t maker : stream.makers) sink.after(step_end(maker, unit), stages_[maker].given->latency, {});
    for (const size_t from : stream.from)
      if (!queues_[from].sorts) sink.after({queues_[from].in, true, unit}, queues_[from].end_latency, {});
    for (const size_t into : stream.into)
      if (!queues_[into].sorts) list_room(into, RowsPassing::of(below), 0, sink);
    for (const size_t adder : stream.adders) {
      const RowStage& stage = *stages_[adder].given;
      sink.after(step_begin(adder, unit), stage.compute - stage.first, {});
    }
  }

  template <typename Sink>
  void list_step_begin(size_t index, int64_t step, Sink& sink) const {
    if (step > 0) sink.after(step_end(index, step - 1), 0, {});
    for (const RowWindow& window : stages_[index].reads)
      if (const int64_t rows = rows_at(window, step, window.window_rows); rows > 0)
        sink.after({window.stream, true, streams_[window.stream].unit_of(rows - 1)}, 0, {});
  }

  template <typename Sink>
  void list_step_end(size_t index, int64_t step, Sink& sink) const {
    const Stage& mine = stages_[index];
    const RowStage& stage = *mine.given;
    sink.after(step_begin(index, step), stage.compute, {});
    if (mine.adds) sink.after({*mine.adds, true, step}, stage.first, {});
    if (!mine.out) return;
    const Stream& out = streams_[*mine.out];
    const RowsPassing::Less ahead{stage.ahead, nullptr};
    const bool soon = stage.ahead < 1;
    sink.after_passing({.stream = *mine.out,
                        .above = step + 1,
                        .less = &ahead,
                        .amount = static_cast<double>(step + 1) - stage.ahead,
                        .counts_units = true,
                        .soon = soon,
                        .least = std::max(stage.compute - stage.first, out.row_seconds)},
                       {.tail = stage.tail});
    if (!soon) return;
    const int64_t above = out.rows_to(step), below = out.rows_to(step + 1);
    list_room_behind(*mine.out, RowsPassing::of(above, (1 - stage.ahead) * static_cast<double>(below - above)), stage.tail, sink);
  }

  const RowTiming& network_;
  bool unlimited_ = false;
  int64_t period_ = 1;
  std::vector<Stream> streams_;
  std::vector<Stage> stages_;
  std::vector<RowQueue> queues_;
};

}  // namespace millrace
