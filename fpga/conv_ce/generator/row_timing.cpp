#include "fpga/conv_ce/generator/row_timing.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/base/check.h"

namespace millrace {

int64_t RowBlocks::units() const { return rows <= first_block_rows ? 1 : 1 + (rows - first_block_rows + block_rows - 1) / block_rows; }

int64_t RowBlocks::unit_of(int64_t row) const {
  const int64_t local = row % rows;
  const int64_t unit = local < first_block_rows ? 0 : 1 + (local - first_block_rows) / block_rows;
  return row / rows * units() + unit;
}

int64_t RowBlocks::rows_to(int64_t unit) const {
  const int64_t local = unit % units();
  return unit / units() * rows + (local == 0 ? 0 : first_block_rows + (local - 1) * block_rows);
}

size_t RowTiming::stream(const RowBlocks& blocks, double row_seconds) {
  RowBlocks own = blocks;
  own.first_block_rows = std::min(own.first_block_rows, own.rows);
  if (own.units() == 1) own.block_rows = 1;
  streams_.push_back({own, row_seconds});
  joined_.push_back(joined_.size());
  return joined_.back();
}

size_t RowTiming::same(size_t stream) const {
  while (joined_[stream] != stream) stream = joined_[stream];
  return stream;
}

void RowTiming::join(size_t a, size_t b) {
  a = same(a);
  b = same(b);
  if (a == b) return;
  MILLRACE_CHECK(streams_[a].blocks == streams_[b].blocks, "streams of {} and {} rows move together", streams_[a].blocks.rows,
                 streams_[b].blocks.rows);
  joined_[std::max(a, b)] = std::min(a, b);
  slow_down(a, streams_[std::max(a, b)].row_seconds);
}

void RowTiming::slow_down(size_t stream, double row_seconds) {
  double& own = streams_[same(stream)].row_seconds;
  own = std::max(own, row_seconds);
}

void RowTiming::stage(RowStage stage) { stages_.push_back(std::move(stage)); }

size_t RowTiming::queue(const RowQueue& queue) {
  queues_.push_back(queue);
  return queues_.size() - 1;
}

void RowTiming::host(size_t scores, size_t errors) { hosts_.emplace_back(scores, errors); }

// One run: who waits for whom, and when each unit and step was.
class RowWalk {
 public:
  RowWalk(const RowTiming& network, const RowRun& how) : network_(network), how_(how) {
    streams_.resize(network.streams_.size());
    stages_.resize(network.stages_.size());
    for (size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].blocks = network.streams_[i].blocks;
      streams_[i].row_seconds = network.streams_[i].row_seconds;
      streams_[i].units = network.same(i) == i ? how.samples * streams_[i].blocks.units() : 0;
    }
    for (size_t i = 0; i < stages_.size(); ++i) add_stage(i);
    queues_ = network.queues_;
    for (size_t i = 0; i < queues_.size(); ++i) {
      RowQueue& queue = queues_[i];
      queue.in = network.same(queue.in);
      queue.out = network.same(queue.out);
      streams_[queue.in].into.push_back(i);
      streams_[queue.out].from.push_back(i);
      meet(queue.in, queue.out);
    }
    for (const auto& [scores, errors] : network.hosts_) {
      streams_[network.same(errors)].behind = network.same(scores);
      meet(network.same(scores), network.same(errors));
    }
    if (how.source) streams_[network.same(*how.source)].source_period = how.source_period;
  }

  RowTimes run() {
    std::vector<bool> listed(streams_.size() + stages_.size(), true);
    std::deque<size_t> list;
    for (size_t i = 0; i < listed.size(); ++i) list.push_back(i);
    while (!list.empty()) {
      const size_t next = list.front();
      list.pop_front();
      listed[next] = false;
      if (!(next < streams_.size() ? advance_stream(next) : advance_stage(next - streams_.size()))) continue;
      for (const size_t other : next < streams_.size() ? streams_[next].others : stages_[next - streams_.size()].others)
        if (!listed[other]) {
          listed[other] = true;
          list.push_back(other);
        }
    }
    return times();
  }

 private:
  // When something was, and what it waited for last: of a stream 2 * index, or one more for an end; of a stage likewise, behind those.
  struct Moment {
    double at = 0;
    int64_t from = -1;
    int64_t unit = 0;
    int64_t queue = -1;  // whose room it was

    void wait(const Moment& other) {
      if (other.at > at || from < 0) *this = other;
    }
  };
  struct Stream {
    RowBlocks blocks;
    double row_seconds = 0;
    int64_t units = 0;
    std::vector<size_t> makers;                      // stages
    std::vector<size_t> adders;                      // stages that it is added in
    std::vector<std::pair<size_t, size_t>> readers;  // stages and their windows
    std::vector<size_t> from, into;                  // queues
    std::optional<size_t> behind;                    // scores
    double source_period = 0;
    std::vector<size_t> others;
    std::vector<Moment> begins, ends;
  };
  struct Stage {
    int64_t steps = 0;
    std::vector<int64_t> releasing;  // by window: the step that must have begun for the next rows to have banks
    std::vector<size_t> others;
    std::vector<Moment> begins, ends;
  };

  void add_stage(size_t index) {
    const RowStage& stage = network_.stages_[index];
    Stage& mine = stages_[index];
    mine.steps = how_.samples / stage.samples_of_pass * stage.reads.front().steps;
    mine.releasing.assign(stage.reads.size(), 0);
    const size_t self = streams_.size() + index;
    for (size_t read = 0; read < stage.reads.size(); ++read) {
      const size_t stream = network_.same(stage.reads[read].stream);
      streams_[stream].readers.emplace_back(index, read);
      meet(stream, self);
    }
    if (stage.adds) {
      streams_[network_.same(*stage.adds)].adders.push_back(index);
      meet(network_.same(*stage.adds), self);
    }
    if (stage.out) {
      const Stream& out = streams_[network_.same(*stage.out)];
      MILLRACE_CHECK(out.units == mine.steps, "a stage of {} steps makes {} units", mine.steps, out.units);
      streams_[network_.same(*stage.out)].makers.push_back(index);
      meet(network_.same(*stage.out), self);
    }
  }

  void meet(size_t a, size_t b) {
    for (const auto& [one, other] : {std::pair(a, b), std::pair(b, a)})
      (one < streams_.size() ? streams_[one].others : stages_[one - streams_.size()].others).push_back(other);
  }

  static Moment later(const Moment& moment, double seconds, int64_t from, int64_t unit) { return {moment.at + seconds, from, unit, -1}; }
  std::optional<Moment> began(size_t stream, int64_t unit, double seconds = 0) const {
    if (unit >= std::ssize(streams_[stream].begins)) return std::nullopt;
    return later(streams_[stream].begins[static_cast<size_t>(unit)], seconds, static_cast<int64_t>(2 * stream), unit);
  }
  std::optional<Moment> ended(size_t stream, int64_t unit, double seconds = 0) const {
    if (unit >= std::ssize(streams_[stream].ends)) return std::nullopt;
    return later(streams_[stream].ends[static_cast<size_t>(unit)], seconds, static_cast<int64_t>(2 * stream + 1), unit);
  }
  std::optional<Moment> step_began(size_t stage, int64_t step, double seconds = 0) const {
    if (step >= std::ssize(stages_[stage].begins)) return std::nullopt;
    return later(stages_[stage].begins[static_cast<size_t>(step)], seconds, static_cast<int64_t>(2 * (streams_.size() + stage)), step);
  }
  std::optional<Moment> step_ended(size_t stage, int64_t step, double seconds = 0) const {
    if (step < 0) return Moment{};
    if (step >= std::ssize(stages_[stage].ends)) return std::nullopt;
    return later(stages_[stage].ends[static_cast<size_t>(step)], seconds, static_cast<int64_t>(2 * (streams_.size() + stage) + 1), step);
  }

  // When so much of a stream, in units, had passed. `soon`: of a unit that has not ended, as if it went on without a stop.
  std::optional<Moment> passed(size_t stream, double units, bool soon, double least) const {
    constexpr double kRounding = 1e-9;
    if (units <= kRounding) return Moment{};
    const auto unit = static_cast<int64_t>(std::ceil(units - kRounding)) - 1;
    const double part = std::min(units - static_cast<double>(unit), 1.0);
    if (part > 1 - kRounding && !soon) return ended(stream, unit);
    std::optional<Moment> begin = began(stream, unit);
    if (!begin || soon) {
      if (begin) begin->at += part * least;
      return begin;
    }
    std::optional<Moment> end = ended(stream, unit);
    if (end) end->at = begin->at + part * (end->at - begin->at);
    return end;
  }

  double in_units(const RowBlocks& blocks, double rows) const {
    if (rows <= 0) return 0;
    const int64_t unit = blocks.unit_of(static_cast<int64_t>(std::floor(rows)));
    const auto begin = static_cast<double>(blocks.rows_to(unit));
    return static_cast<double>(unit) + (rows - begin) / static_cast<double>(blocks.rows_to(unit + 1) - blocks.rows_to(unit));
  }

  // Of a queue's room, when rows up to `rows` may have come in.
  std::optional<Moment> room(size_t index, double rows) const {
    const RowQueue& queue = queues_[index];
    if (how_.unlimited && queue.waits) return Moment{};
    const Stream& out = streams_[queue.out];
    std::optional<Moment> found;
    if (queue.sorts) {
      const auto row = static_cast<int64_t>(rows - queue.rows) - 1;
      found = row < 0 ? Moment{} : ended(queue.out, out.blocks.unit_of(row));
    } else {
      const auto block = static_cast<double>(std::max(out.blocks.first_block_rows, out.blocks.block_rows));
      found = passed(queue.out, in_units(out.blocks, rows - queue.rows), queue.rows < block, block * out.row_seconds);
    }
    if (found) found->queue = static_cast<int64_t>(index);
    return found;
  }

  static int64_t rows_at(const RowWindow& window, int64_t step, int64_t row) {
    const int64_t top = window.first_top + step % window.steps * window.stride;
    return step / window.steps * window.map_rows + std::clamp(top + row, int64_t{0}, window.map_rows);
  }

  // When banks for rows up to `rows` are free.
  std::optional<Moment> banks(size_t stage, size_t read, int64_t rows) {
    const RowWindow& window = network_.stages_[stage].reads[read];
    int64_t& step = stages_[stage].releasing[read];
    while (rows_at(window, step, 0) + window.banks < rows) ++step;
    return step_ended(stage, step - 1);
  }

  bool advance_stream(size_t index) {
    Stream& stream = streams_[index];
    bool moved = false;
    while (std::ssize(stream.ends) < stream.units) {
      const bool begins = stream.begins.size() == stream.ends.size();
      const auto unit = std::ssize(stream.ends);
      const std::optional<Moment> found = begins ? beginning(index, unit) : end(index, unit);
      if (!found) return moved;
      (begins ? stream.begins : stream.ends).push_back(*found);
      moved = true;
    }
    return moved;
  }

  std::optional<Moment> beginning(size_t index, int64_t unit) {
    const Stream& stream = streams_[index];
    const int64_t above = stream.blocks.rows_to(unit), below = stream.blocks.rows_to(unit + 1);
    Moment latest;
    bool known = true;
    const auto wait = [&](const std::optional<Moment>& moment) {
      known = known && moment;
      if (moment) latest.wait(*moment);
    };
    if (unit > 0) wait(ended(index, unit - 1));
    for (const size_t maker : stream.makers) {
      const RowStage& stage = network_.stages_[maker];
      wait(step_began(maker, unit, stage.first + stage.latency));
    }
    for (const size_t from : stream.from) {
      const RowQueue& queue = queues_[from];
      if (queue.sorts)
        wait(ended(queue.in, streams_[queue.in].blocks.unit_of(below - 1), queue.latency));
      else
        wait(began(queue.in, unit, queue.latency));
    }
    if (stream.behind && unit % stream.blocks.units() == 0) {
      const int64_t units = streams_[*stream.behind].blocks.units();
      wait(ended(*stream.behind, (unit / stream.blocks.units() + 1) * units - 1));
    }
    for (const auto& [stage, read] : stream.readers) wait(banks(stage, read, below));
    for (const size_t into : stream.into) wait(room(into, static_cast<double>(queues_[into].sorts ? below : above)));
    for (const size_t adder : stream.adders) wait(step_ended(adder, unit - 1));
    const double given = stream.source_period * static_cast<double>(above) / static_cast<double>(stream.blocks.rows);
    if (given > latest.at) latest = {given, -1, 0, -1};
    return known ? std::optional(latest) : std::nullopt;
  }

  std::optional<Moment> end(size_t index, int64_t unit) {
    const Stream& stream = streams_[index];
    const int64_t above = stream.blocks.rows_to(unit), below = stream.blocks.rows_to(unit + 1);
    Moment latest = *began(index, unit, static_cast<double>(below - above) * stream.row_seconds);
    bool known = true;
    const auto wait = [&](const std::optional<Moment>& moment) {
      known = known && moment;
      if (moment) latest.wait(*moment);
    };
    for (const size_t maker : stream.makers) wait(step_ended(maker, unit, network_.stages_[maker].latency));
    for (const size_t from : stream.from)
      if (!queues_[from].sorts) wait(ended(queues_[from].in, unit, queues_[from].end_latency));
    for (const size_t into : stream.into)
      if (!queues_[into].sorts) wait(room(into, static_cast<double>(below)));
    for (const size_t adder : stream.adders) {
      const RowStage& stage = network_.stages_[adder];
      wait(step_began(adder, unit, stage.compute - stage.first));
    }
    return known ? std::optional(latest) : std::nullopt;
  }

  bool advance_stage(size_t index) {
    Stage& stage = stages_[index];
    bool moved = false;
    while (std::ssize(stage.ends) < stage.steps) {
      const bool begins = stage.begins.size() == stage.ends.size();
      const auto step = std::ssize(stage.ends);
      const std::optional<Moment> found = begins ? step_beginning(index, step) : step_end(index, step);
      if (!found) return moved;
      (begins ? stage.begins : stage.ends).push_back(*found);
      moved = true;
    }
    return moved;
  }

  std::optional<Moment> step_beginning(size_t index, int64_t step) const {
    Moment latest = *step_ended(index, step - 1);
    for (const RowWindow& window : network_.stages_[index].reads) {
      const int64_t rows = rows_at(window, step, window.window_rows);
      if (rows == 0) continue;
      const size_t stream = network_.same(window.stream);
      const std::optional<Moment> in = ended(stream, streams_[stream].blocks.unit_of(rows - 1));
      if (!in) return std::nullopt;
      latest.wait(*in);
    }
    return latest;
  }

  std::optional<Moment> step_end(size_t index, int64_t step) const {
    const RowStage& stage = network_.stages_[index];
    Moment latest = *step_began(index, step, stage.compute);
    if (stage.adds) {
      const std::optional<Moment> added = ended(network_.same(*stage.adds), step, stage.first);
      if (!added) return std::nullopt;
      latest.wait(*added);
    }
    if (stage.out) {
      const size_t out = network_.same(*stage.out);
      const double least = std::max(stage.compute - stage.first, streams_[out].row_seconds);
      std::optional<Moment> left = passed(out, static_cast<double>(step + 1) - stage.ahead, stage.ahead < 1, least);
      if (!left) return std::nullopt;
      left->at += stage.tail;
      if (left->from >= 0) latest.wait(*left);
    }
    return latest;
  }

  const std::vector<Moment>& moments(int64_t kind) const {
    const auto entity = static_cast<size_t>(kind / 2);
    if (entity < streams_.size()) return kind % 2 == 0 ? streams_[entity].begins : streams_[entity].ends;
    const Stage& stage = stages_[entity - streams_.size()];
    return kind % 2 == 0 ? stage.begins : stage.ends;
  }

  RowTimes times() const {
    RowTimes found;
    found.peak_rows.resize(queues_.size());
    found.samples_held.resize(queues_.size());
    for (const Stream& stream : streams_) found.stands_still = found.stands_still || std::ssize(stream.ends) < stream.units;
    for (const Stage& stage : stages_) found.stands_still = found.stands_still || std::ssize(stage.ends) < stage.steps;
    if (found.stands_still) return found;
    // The last event of a sample.
    std::vector<Moment> done(static_cast<size_t>(how_.samples));
    const auto take = [&](const std::vector<Moment>& ends, int64_t kind) {
      const int64_t per_sample = std::ssize(ends) / how_.samples;
      if (per_sample == 0) return;
      for (int64_t sample = 0; sample < how_.samples; ++sample) {
        const int64_t last = (sample + 1) * per_sample - 1;
        Moment& own = done[static_cast<size_t>(sample)];
        if (const double at = ends[static_cast<size_t>(last)].at; at > own.at) own = {at, kind, last, -1};
      }
    };
    for (size_t i = 0; i < streams_.size(); ++i) take(streams_[i].ends, static_cast<int64_t>(2 * i + 1));
    const int64_t half = how_.samples / 2;
    found.period = (done.back().at - done[static_cast<size_t>(how_.samples - 1 - half)].at) / static_cast<double>(half);
    // Back along what each event waited for.
    const double from = done[static_cast<size_t>(how_.samples - 1 - half)].at;
    for (Moment at = done.back(); at.from >= 0 && at.at > from;) {
      const Moment& why = moments(at.from)[static_cast<size_t>(at.unit)];
      if (why.queue >= 0 && queues_[static_cast<size_t>(why.queue)].waits) {
        const RowQueue& queue = queues_[static_cast<size_t>(why.queue)];
        found.samples_held[static_cast<size_t>(why.queue)] += queue.rows / static_cast<double>(streams_[queue.in].blocks.rows);
      }
      at = why;
    }
    for (size_t i = 0; i < queues_.size(); ++i)
      if (queues_[i].waits) found.peak_rows[i] = peak_of(queues_[i]);
    return found;
  }

  // Of the second half: rows that have come in when a unit ends, less those that have left.
  double peak_of(const RowQueue& queue) const {
    const Stream &in = streams_[queue.in], &out = streams_[queue.out];
    double most = 0;
    int64_t left = 0;
    for (int64_t unit = in.units / 2; unit < in.units; ++unit) {
      const double now = in.ends[static_cast<size_t>(unit)].at;
      while (left < out.units && out.ends[static_cast<size_t>(left)].at <= now) ++left;
      double gone = static_cast<double>(out.blocks.rows_to(left));
      if (left < out.units && out.begins[static_cast<size_t>(left)].at < now) {
        const double begin = out.begins[static_cast<size_t>(left)].at, end = out.ends[static_cast<size_t>(left)].at;
        gone += (now - begin) / (end - begin) * static_cast<double>(out.blocks.rows_to(left + 1) - out.blocks.rows_to(left));
      }
      most = std::max(most, static_cast<double>(in.blocks.rows_to(unit + 1)) - gone);
    }
    return most;
  }

  const RowTiming& network_;
  const RowRun& how_;
  std::vector<Stream> streams_;
  std::vector<Stage> stages_;
  std::vector<RowQueue> queues_;
};

RowTimes RowTiming::run(const RowRun& how) const { return RowWalk(*this, how).run(); }

}  // namespace millrace
