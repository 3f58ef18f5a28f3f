#include "fpga/conv_ce/generator/row_events.h"

#include <numeric>

#include "core/base/check.h"

namespace millrace {

bool RowsPassing::is_whole() const {
  if (more != std::floor(more)) return false;
  for (const Less* one = less; one != nullptr; one = one->before)
    if (one->rows != std::floor(one->rows)) return false;
  return true;
}

double RowEvents::Stream::in_units(double rows) const {
  if (rows <= 0) return 0;
  if (single_rows) return rows;
  const int64_t unit = unit_of(static_cast<int64_t>(rows));
  const auto begin = static_cast<double>(rows_to(unit));
  return static_cast<double>(unit) + (rows - begin) / static_cast<double>(rows_to(unit + 1) - rows_to(unit));
}

RowEvents::RowEvents(const RowTiming& network, bool unlimited) : network_(network), unlimited_(unlimited) {
  streams_.resize(network.streams_.size());
  for (size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = streams_[i];
    stream.blocks = network.streams_[i].blocks;
    stream.of_sample = stream.blocks.units();
    stream.single_rows = stream.of_sample == stream.blocks.rows;
    stream.moves = network.same(i) == i;
    stream.row_seconds = network.streams_[i].row_seconds;
  }
  for (const RowStage& stage : network.stages_) {
    const size_t index = stages_.size();
    Stage& mine = stages_.emplace_back(Stage{.reads = stage.reads, .adds = {}, .out = {}, .given = &stage});
    period_ = std::lcm(period_, stage.samples_of_pass);
    for (size_t read = 0; read < mine.reads.size(); ++read) {
      mine.reads[read].stream = network.same(mine.reads[read].stream);
      streams_[mine.reads[read].stream].readers.emplace_back(index, read);
    }
    if (stage.adds) {
      mine.adds = network.same(*stage.adds);
      streams_[*mine.adds].adders.push_back(index);
    }
    if (stage.out) {
      mine.out = network.same(*stage.out);
      streams_[*mine.out].makers.push_back(index);
    }
  }
  queues_ = network.queues_;
  for (size_t i = 0; i < queues_.size(); ++i) {
    RowQueue& queue = queues_[i];
    queue.in = network.same(queue.in);
    queue.out = network.same(queue.out);
    streams_[queue.in].into.push_back(i);
    streams_[queue.out].from.push_back(i);
  }
  for (const auto& [scores, errors] : network.hosts_) streams_[network.same(errors)].behind = network.same(scores);
  check_periods();
}

size_t RowEvents::same(size_t stream) const { return network_.same(stream); }

int64_t RowEvents::units_of(size_t entity, int64_t samples) const {
  if (entity < streams_.size()) return streams_[entity].moves ? samples * streams_[entity].of_sample : 0;
  const RowStage& stage = *stages_[entity - streams_.size()].given;
  return samples / stage.samples_of_pass * stage.reads.front().steps;
}

bool RowEvents::passes_end_alone() const {
  return std::ranges::all_of(stages_, [this](const Stage& stage) {
    return stage.given->samples_of_pass == 1 || (stage.given->samples_of_pass == period_ && !stage.adds && !stage.out);
  });
}

bool RowEvents::is_read_in_passes(size_t stream) const {
  return std::ranges::any_of(streams_[stream].readers, [this](const auto& reader) { return is_pass(streams_.size() + reader.first); });
}

// Whoever waits for another has as many units, rows or steps as it, sample after sample.
void RowEvents::check_periods() const {
  for (size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    const int64_t steps = units_of(streams_.size() + i, period_);
    for (const auto& units : {stage.adds, stage.out})
      MILLRACE_CHECK(!units || units_of(*units, period_) == steps, "a stage of {} steps makes or adds {} units", steps,
                     units_of(*units, period_));
    for (const RowWindow& window : stage.reads) {
      const int64_t rows = period_ * streams_[window.stream].blocks.rows;
      MILLRACE_CHECK(steps % window.steps == 0 && steps / window.steps * window.map_rows == rows,
                     "a stage of {} steps, {} to a map of {} rows, reads {} rows", steps, window.steps, window.map_rows, rows);
    }
  }
  for (const RowQueue& queue : queues_) {
    const Stream &in = streams_[queue.in], &out = streams_[queue.out];
    MILLRACE_CHECK(in.blocks.rows == out.blocks.rows, "a queue between streams of {} and {} rows", in.blocks.rows, out.blocks.rows);
    MILLRACE_CHECK(queue.sorts ? queue.rows == std::floor(queue.rows) : in.of_sample == out.of_sample,
                   "a queue of {} rows between streams of {} and {} units", queue.rows, in.of_sample, out.of_sample);
  }
}

// The first step that is beyond all rows but the last ones, which have banks, begins once the step before is over.
int64_t RowEvents::step_before(const RowWindow& window, int64_t rows) {
  const int64_t passed = rows - window.banks;
  if (passed <= 0) return -1;
  const int64_t map = (passed - 1) / window.map_rows;
  const int64_t top = passed - map * window.map_rows - window.first_top;  // less the first step's
  int64_t step = 0;
  if (top > 0)
    step = window.stride > 0 ? (top + window.stride - 1) / window.stride * window.steps_of_window - window.missing_steps : window.steps;
  return map * window.steps + std::clamp(step, int64_t{0}, window.steps) - 1;
}

}  // namespace millrace
