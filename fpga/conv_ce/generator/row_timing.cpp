#include "fpga/conv_ce/generator/row_timing.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "core/base/check.h"
#include "core/base/index.h"

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

// One run: who waits for whom, and when each unit and step was. Times alone are kept while the run goes on; what an event waited for is
// found out again, from the times, of the few that are asked about behind it.
class RowWalk {
 public:
  RowWalk(const RowTiming& network, const RowRun& how) : network_(network), how_(how) {
    streams_.resize(network.streams_.size());
    stages_.resize(network.stages_.size());
    for (size_t i = 0; i < streams_.size(); ++i) {
      streams_[i].blocks = network.streams_[i].blocks;
      streams_[i].of_sample = streams_[i].blocks.units();
      streams_[i].single_rows = streams_[i].of_sample == streams_[i].blocks.rows;
      streams_[i].row_seconds = network.streams_[i].row_seconds;
      streams_[i].units = network.same(i) == i ? how.samples * streams_[i].of_sample : 0;
      streams_[i].events.resize(streams_[i].units);
    }
    for (size_t i = 0; i < stages_.size(); ++i) add_stage(i);
    queues_ = network.queues_;
    for (size_t i = 0; i < queues_.size(); ++i) {
      RowQueue& queue = queues_[i];
      queue.in = network.same(queue.in);
      queue.out = network.same(queue.out);
      streams_[queue.in].into.push_back(i);
      streams_[queue.out].from.push_back(i);
    }
    for (const auto& [scores, errors] : network.hosts_) streams_[network.same(errors)].behind = network.same(scores);
    if (how.source) streams_[network.same(*how.source)].source_period = how.source_period;
  }

  RowTimes run() {
    std::deque<size_t> ready(streams_.size() + stages_.size());
    std::iota(ready.begin(), ready.end(), size_t{0});
    std::vector<std::vector<Wait>> waiting(ready.size());  // by who has to go on
    while (!ready.empty()) {
      const size_t next = ready.front();
      ready.pop_front();
      const bool is_stream = next < streams_.size();
      const bool moved = is_stream ? advance_stream(next) : advance_stage(next - streams_.size());
      const Events& events = is_stream ? streams_[next].events : stages_[next - streams_.size()].events;
      if (!events.all()) waiting[to_size(missing_.kind / 2)].push_back({next, missing_});
      if (!moved) continue;
      std::erase_if(waiting[next], [&](const Wait& wait) {
        const bool goes_on = wait.event.unit < (wait.event.kind % 2 == 0 ? events.begun : events.ended);
        if (goes_on) ready.push_back(wait.who);
        return goes_on;
      });
    }
    return times();
  }

 private:
  // When something was, and what it waited for last, as Event has it.
  struct Moment {
    double at = 0;
    int64_t from = -1;
    int64_t unit = 0;
    int64_t queue = -1;  // whose room it was
    bool was = true;

    static Moment never() { return {.was = false}; }
    static Moment of(double at, int64_t from, int64_t unit) { return {.at = at, .from = from, .unit = unit}; }
    bool waited() const { return from >= 0; }
    void wait(const Moment& other) {
      if (other.at > at || from < 0) *this = other;
    }
    void for_room_of(size_t index) {
      if (queue < 0) queue = static_cast<int64_t>(index);
    }
  };
  // The time of a Moment alone: without a cause before all others, and no number where it has not been.
  struct Time {
    double at = -std::numeric_limits<double>::infinity();

    static Time never() { return {std::numeric_limits<double>::quiet_NaN()}; }
    static Time of(double at, int64_t /*from*/, int64_t /*unit*/) { return {at}; }
    bool waited() const { return at > -std::numeric_limits<double>::infinity(); }
    void wait(const Time& other) { at = std::max(at, other.at); }
    void for_room_of(size_t /*index*/) {}
  };
  static bool has_been(const Moment& moment) { return moment.was; }
  static bool has_been(const Time& time) { return !std::isnan(time.at); }
  // Of a stream 2 * index, or one more for an end; of a stage likewise, behind those.
  struct Event {
    int64_t kind = 0, unit = 0;
  };
  struct Wait {
    size_t who = 0;
    Event event;
  };
  // Units or steps, one behind the other: each begins once the one before has ended.
  struct Events {
    std::vector<double> begins, ends;
    int64_t begun = 0, ended = 0;

    void resize(int64_t count) {
      begins.resize(to_size(count));
      ends.resize(to_size(count));
    }
    bool all() const { return ended == std::ssize(ends); }
    void begin(double at) { fast_item(begins, begun++) = at; }
    void end(double at) { fast_item(ends, ended++) = at; }
  };
  struct Stream {
    RowBlocks blocks;
    int64_t of_sample = 1;     // units
    bool single_rows = false;  // a unit is a row
    double row_seconds = 0;
    int64_t units = 0;
    std::vector<size_t> makers;                      // stages
    std::vector<size_t> adders;                      // stages that it is added in
    std::vector<std::pair<size_t, size_t>> readers;  // stages and their windows
    std::vector<size_t> from, into;                  // queues
    std::optional<size_t> behind;                    // scores
    double source_period = 0;
    Events events;
    int64_t above = 0, below = 0;  // rows before the next unit, and with it

    int64_t unit_of(int64_t row) const { return single_rows ? row : blocks.unit_of(row); }
    int64_t rows_to(int64_t unit) const { return single_rows ? unit : blocks.rows_to(unit); }
  };
  struct Window {
    RowWindow given;
    size_t stream = 0;
    int64_t releasing = 0;  // the step that must have begun for the next rows to have banks
    int64_t room_to = 0;    // the rows that have banks then
    int64_t needed = -1;    // the unit that the next step waits for; -1: none
  };
  struct Stage {
    int64_t steps = 0;
    std::vector<Window> reads;
    std::optional<size_t> adds, out;  // streams
    Events events;
  };

  void add_stage(size_t index) {
    const RowStage& stage = network_.stages_[index];
    Stage& mine = stages_[index];
    mine.steps = how_.samples / stage.samples_of_pass * stage.reads.front().steps;
    mine.events.resize(mine.steps);
    for (size_t read = 0; read < stage.reads.size(); ++read) {
      const size_t stream = network_.same(stage.reads[read].stream);
      Window& window = mine.reads.emplace_back(Window{.given = stage.reads[read], .stream = stream});
      window.room_to = rows_at(window.given, 0, 0) + window.given.banks;
      window.needed = needed_unit(window, 0);
      streams_[stream].readers.emplace_back(index, read);
    }
    if (stage.adds) {
      mine.adds = network_.same(*stage.adds);
      streams_[*mine.adds].adders.push_back(index);
    }
    if (stage.out) {
      mine.out = network_.same(*stage.out);
      const Stream& out = streams_[*mine.out];
      MILLRACE_CHECK(out.units == mine.steps, "a stage of {} steps makes {} units", mine.steps, out.units);
      streams_[*mine.out].makers.push_back(index);
    }
  }

  // Holds less than a block: both sides pass it together.
  bool is_short(const RowQueue& queue) const { return !queue.sorts && queue.rows < block_rows(streams_[queue.out]); }

  static int64_t begin_of(size_t entity) { return static_cast<int64_t>(2 * entity); }
  int64_t begin_of_stage(size_t stage) const { return begin_of(streams_.size() + stage); }

  // An event and so many seconds; never as long as it has not been.
  template <typename When>
  When began(const Events& events, int64_t kind, int64_t unit, double seconds) const {
    if (unit < events.begun) return When::of(fast_item(events.begins, unit) + seconds, kind, unit);
    missing_ = {kind, unit};
    return When::never();
  }
  template <typename When>
  When ended(const Events& events, int64_t kind, int64_t unit, double seconds) const {
    if (unit < events.ended) return When::of(fast_item(events.ends, unit) + seconds, kind + 1, unit);
    missing_ = {kind + 1, unit};
    return When::never();
  }
  template <typename When>
  When began(size_t stream, int64_t unit, double seconds = 0) const {
    return began<When>(streams_[stream].events, begin_of(stream), unit, seconds);
  }
  template <typename When>
  When ended(size_t stream, int64_t unit, double seconds = 0) const {
    return ended<When>(streams_[stream].events, begin_of(stream), unit, seconds);
  }
  template <typename When>
  When step_began(size_t stage, int64_t step, double seconds = 0) const {
    return began<When>(stages_[stage].events, begin_of_stage(stage), step, seconds);
  }
  template <typename When>
  When step_ended(size_t stage, int64_t step, double seconds = 0) const {
    if (step < 0) return When{};
    return ended<When>(stages_[stage].events, begin_of_stage(stage), step, seconds);
  }

  // When so much of a stream, in units, had passed. `soon`: of a unit that has not ended, as if it went on without a stop.
  template <typename When>
  When passed(size_t stream, double units, bool soon, double least) const {
    constexpr double kRounding = 1e-9;
    if (units <= kRounding) return When{};
    const auto unit = static_cast<int64_t>(std::ceil(units - kRounding)) - 1;
    const double part = std::min(units - static_cast<double>(unit), 1.0);
    if (part > 1 - kRounding && !soon) return ended<When>(stream, unit);
    When begin = began<When>(stream, unit);
    if (!has_been(begin) || soon) {
      if (has_been(begin)) begin.at += part * least;
      return begin;
    }
    When end = ended<When>(stream, unit);
    if (has_been(end)) end.at = begin.at + part * (end.at - begin.at);
    return end;
  }

  static double in_units(const Stream& stream, double rows) {
    if (rows <= 0) return 0;
    const int64_t unit = stream.unit_of(static_cast<int64_t>(std::floor(rows)));
    const auto begin = static_cast<double>(stream.rows_to(unit));
    return static_cast<double>(unit) + (rows - begin) / static_cast<double>(stream.rows_to(unit + 1) - stream.rows_to(unit));
  }

  static double block_rows(const Stream& stream) {
    return static_cast<double>(std::max(stream.blocks.first_block_rows, stream.blocks.block_rows));
  }

  // Of a queue's room, when rows up to `rows` may have come in.
  template <typename When>
  When room(size_t index, double rows) const {
    const RowQueue& queue = queues_[index];
    if (how_.unlimited && queue.waits) return When{};
    const Stream& out = streams_[queue.out];
    When found;
    if (queue.sorts) {
      const auto row = static_cast<int64_t>(rows - queue.rows) - 1;
      // Banks are free once the last beat is read: what is on its way out by then is no longer in them.
      if (row >= 0) found = ended<When>(queue.out, out.unit_of(row), -queue.latency);
    } else {
      const bool is_short_one = is_short(queue);
      found = passed<When>(queue.out, in_units(out, rows - queue.rows), is_short_one, block_rows(out) * out.row_seconds);
      if (has_been(found) && is_short_one && !wait(found, room_behind<When>(queue.out, rows - queue.rows))) return When::never();
    }
    found.for_room_of(index);
    return found;
  }
  // When rows of a stream up to `rows` may pass it: whoever stands before a few of its beats is held up as long.
  template <typename When>
  When room_behind(size_t stream, double rows) const {
    When latest;
    for (const size_t into : streams_[stream].into)
      if (!queues_[into].sorts && !wait(latest, room<When>(into, rows))) return When::never();
    return latest;
  }

  static int64_t rows_at(const RowWindow& window, int64_t step, int64_t row) {
    const int64_t top = window.first_top + (step % window.steps + window.missing_steps) / window.steps_of_window * window.stride;
    return step / window.steps * window.map_rows + std::clamp(top + row, int64_t{0}, window.map_rows);
  }

  // Of a step; -1: none.
  int64_t needed_unit(const Window& window, int64_t step) const {
    const int64_t rows = rows_at(window.given, step, window.given.window_rows);
    return rows == 0 ? -1 : streams_[window.stream].unit_of(rows - 1);
  }

  // When banks for rows up to `rows` are free: the run asks for more and more of them.
  Time next_banks(size_t stage, size_t read, int64_t rows) {
    Window& window = stages_[stage].reads[read];
    while (window.room_to < rows) window.room_to = rows_at(window.given, ++window.releasing, 0) + window.given.banks;
    return step_ended<Time>(stage, window.releasing - 1);
  }
  // Of any rows.
  Moment banks(size_t stage, size_t read, int64_t rows) const {
    const RowWindow& window = stages_[stage].reads[read].given;
    int64_t enough = stages_[stage].steps;
    for (int64_t few = -1; enough - few > 1;) {
      const int64_t middle = few + (enough - few) / 2;
      (rows_at(window, middle, 0) + window.banks < rows ? few : enough) = middle;
    }
    return step_ended<Moment>(stage, enough - 1);
  }

  template <typename When>
  static bool wait(When& latest, const When& other) {
    if (!has_been(other)) return false;
    latest.wait(other);
    return true;
  }

  bool advance_stream(size_t index) {
    Stream& stream = streams_[index];
    Events& events = stream.events;
    bool moved = false;
    while (!events.all()) {
      Time latest;
      if (events.begun == events.ended) {
        const auto next = [this](size_t stage, size_t read, int64_t rows) { return next_banks(stage, read, rows); };
        stream.below = stream.rows_to(events.ended + 1);
        if (!beginning(index, events.ended, stream.above, stream.below, next, latest)) return moved;
        const double given = given_by_source(stream, stream.above);
        events.begin(given > latest.at ? given : latest.at);
      } else {
        if (!end(index, events.ended, stream.above, stream.below, latest)) return moved;
        events.end(latest.at);
        stream.above = stream.below;
      }
      moved = true;
    }
    return moved;
  }

  static double given_by_source(const Stream& stream, int64_t above) {
    return stream.source_period * static_cast<double>(above) / static_cast<double>(stream.blocks.rows);
  }

  // Of a unit that has `above` rows before it and makes them `below`. False: something that it waits for has not been yet.
  template <typename Banks, typename When>
  bool beginning(size_t index, int64_t unit, int64_t above, int64_t below, const Banks& banks_of, When& latest) {
    const Stream& stream = streams_[index];
    if (unit > 0 && !wait(latest, ended<When>(index, unit - 1))) return false;
    for (const size_t maker : stream.makers) {
      const RowStage& stage = network_.stages_[maker];
      if (!wait(latest, step_began<When>(maker, unit, stage.first + stage.latency))) return false;
    }
    for (const size_t from : stream.from) {
      const RowQueue& queue = queues_[from];
      if (!wait(latest, queue.sorts ? ended<When>(queue.in, streams_[queue.in].unit_of(below - 1), queue.latency)
                                    : began<When>(queue.in, unit, queue.latency)))
        return false;
    }
    if (stream.behind && unit % stream.of_sample == 0) {
      const int64_t units = streams_[*stream.behind].of_sample;
      if (!wait(latest, ended<When>(*stream.behind, (unit / stream.of_sample + 1) * units - 1))) return false;
    }
    for (const auto& [stage, read] : stream.readers)
      if (!wait(latest, banks_of(stage, read, below))) return false;
    for (const size_t into : stream.into)
      if (!wait(latest, room<When>(into, static_cast<double>(queues_[into].sorts ? below : above)))) return false;
    // Sums of a step go on after its last partial sum was taken.
    for (const size_t adder : stream.adders)
      if (!wait(latest, step_ended<When>(adder, unit - 1, -network_.stages_[adder].first))) return false;
    return true;
  }

  template <typename When>
  bool end(size_t index, int64_t unit, int64_t above, int64_t below, When& latest) const {
    const Stream& stream = streams_[index];
    if (!wait(latest, began<When>(index, unit, static_cast<double>(below - above) * stream.row_seconds))) return false;
    for (const size_t maker : stream.makers)
      if (!wait(latest, step_ended<When>(maker, unit, network_.stages_[maker].latency))) return false;
    for (const size_t from : stream.from)
      if (!queues_[from].sorts && !wait(latest, ended<When>(queues_[from].in, unit, queues_[from].end_latency))) return false;
    for (const size_t into : stream.into)
      if (!queues_[into].sorts && !wait(latest, room<When>(into, static_cast<double>(below)))) return false;
    for (const size_t adder : stream.adders) {
      const RowStage& stage = network_.stages_[adder];
      if (!wait(latest, step_began<When>(adder, unit, stage.compute - stage.first))) return false;
    }
    return true;
  }

  bool advance_stage(size_t index) {
    Stage& stage = stages_[index];
    Events& events = stage.events;
    bool moved = false;
    while (!events.all()) {
      Time latest;
      if (events.begun == events.ended) {
        const auto needed = [](const Window& window) { return window.needed; };
        if (!step_beginning(index, events.ended, needed, latest)) return moved;
        events.begin(std::max(latest.at, 0.0));
      } else {
        if (!step_end(index, events.ended, latest)) return moved;
        events.end(latest.at);
        for (Window& window : stage.reads) window.needed = needed_unit(window, events.ended);
      }
      moved = true;
    }
    return moved;
  }

  template <typename Needed, typename When>
  bool step_beginning(size_t index, int64_t step, const Needed& needed, When& latest) const {
    latest.wait(step_ended<When>(index, step - 1));
    for (const Window& window : stages_[index].reads)
      if (const int64_t unit = needed(window); unit >= 0 && !wait(latest, ended<When>(window.stream, unit))) return false;
    return true;
  }

  template <typename When>
  bool step_end(size_t index, int64_t step, When& latest) const {
    const RowStage& stage = network_.stages_[index];
    const Stage& mine = stages_[index];
    latest.wait(step_began<When>(index, step, stage.compute));
    if (mine.adds && !wait(latest, ended<When>(*mine.adds, step, stage.first))) return false;
    if (!mine.out) return true;
    const double least = std::max(stage.compute - stage.first, streams_[*mine.out].row_seconds);
    When left = passed<When>(*mine.out, static_cast<double>(step + 1) - stage.ahead, stage.ahead < 1, least);
    if (!has_been(left)) return false;
    if (stage.ahead < 1) {
      const Stream& out = streams_[*mine.out];
      const int64_t above = out.rows_to(step), below = out.rows_to(step + 1);
      const double rows = static_cast<double>(above) + (1 - stage.ahead) * static_cast<double>(below - above);
      if (!wait(left, room_behind<When>(*mine.out, rows))) return false;
    }
    left.at += stage.tail;
    if (left.waited()) latest.wait(left);
    return true;
  }

  // What an event of a run that is over waited for.
  Moment cause_of(int64_t kind, int64_t unit) {
    const auto entity = to_size(kind / 2);
    Moment latest;
    if (entity >= streams_.size()) {
      const size_t stage = entity - streams_.size();
      const auto needed = [&](const Window& window) { return needed_unit(window, unit); };
      kind % 2 == 0 ? step_beginning(stage, unit, needed, latest) : step_end(stage, unit, latest);
      return latest;
    }
    const Stream& stream = streams_[entity];
    const int64_t above = stream.rows_to(unit), below = stream.rows_to(unit + 1);
    if (kind % 2 == 1) {
      end(entity, unit, above, below, latest);
      return latest;
    }
    beginning(
        entity, unit, above, below, [this](size_t stage, size_t read, int64_t rows) { return banks(stage, read, rows); }, latest);
    if (const double given = given_by_source(stream, above); given > latest.at) latest = {given, -1, 0, -1};
    return latest;
  }

  RowTimes times() {
    RowTimes found;
    found.peak_rows.resize(queues_.size());
    found.samples_held.resize(queues_.size());
    for (const Stream& stream : streams_) found.stands_still = found.stands_still || !stream.events.all();
    for (const Stage& stage : stages_) found.stands_still = found.stands_still || !stage.events.all();
    if (found.stands_still) return found;
    // The last event of a sample.
    std::vector<Moment> done(to_size(how_.samples));
    const auto take = [&](const std::vector<double>& ends, int64_t kind) {
      const int64_t per_sample = std::ssize(ends) / how_.samples;
      if (per_sample == 0) return;
      for (int64_t sample = 0; sample < how_.samples; ++sample) {
        const int64_t last = (sample + 1) * per_sample - 1;
        Moment& own = fast_item(done, sample);
        if (const double at = fast_item(ends, last); at > own.at) own = {at, kind, last, -1};
      }
    };
    for (size_t i = 0; i < streams_.size(); ++i) take(streams_[i].events.ends, begin_of(i) + 1);
    const int64_t half = how_.samples / 2;
    found.period = (done.back().at - fast_item(done, how_.samples - 1 - half).at) / static_cast<double>(half);
    // Back along what each event waited for.
    const double from = fast_item(done, how_.samples - 1 - half).at;
    for (Moment at = done.back(); at.from >= 0 && at.at > from;) {
      const Moment why = cause_of(at.from, at.unit);
      if (why.queue >= 0 && fast_item(queues_, why.queue).waits) {
        const RowQueue& queue = fast_item(queues_, why.queue);
        fast_item(found.samples_held, why.queue) += queue.rows / static_cast<double>(streams_[queue.in].blocks.rows);
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
      const double now = fast_item(in.events.ends, unit);
      while (left < out.units && fast_item(out.events.ends, left) <= now) ++left;
      double gone = static_cast<double>(out.rows_to(left));
      if (left < out.units && fast_item(out.events.begins, left) < now) {
        const double begin = fast_item(out.events.begins, left), end = fast_item(out.events.ends, left);
        gone += (now - begin) / (end - begin) * static_cast<double>(out.rows_to(left + 1) - out.rows_to(left));
      }
      most = std::max(most, static_cast<double>(in.rows_to(unit + 1)) - gone);
    }
    return most;
  }

  const RowTiming& network_;
  const RowRun& how_;
  std::vector<Stream> streams_;
  std::vector<Stage> stages_;
  std::vector<RowQueue> queues_;
  mutable Event missing_;  // that was asked for last and has not been
};

RowTimes RowTiming::run(const RowRun& how) const { return RowWalk(*this, how).run(); }

}  // namespace millrace
