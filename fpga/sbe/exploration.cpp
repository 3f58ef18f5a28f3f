#include "fpga/sbe/exploration.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace millrace {

namespace {

constexpr int64_t kMostSlotsTried = 3;

// What a point is judged by; less is better in all.
struct Merits {
  double slowness = 0;  // seconds a step
  double seconds = 0;
  double bram36 = 0;
  double dsp = 0;
  double bytes_per_step = 0;
  bool operator==(const Merits&) const = default;

  bool no_worse_than(const Merits& other) const {
    return slowness <= other.slowness && seconds <= other.seconds && bram36 <= other.bram36 && dsp <= other.dsp &&
           bytes_per_step <= other.bytes_per_step;
  }
};

// UltraRAM counts as the BRAM36 that hold as much.
double blocks_in(const SbeUse& use) { return use.bram36 + use.uram * kUramBits / kBram36Bits; }

Merits merits_of(const SbeConfig& config, const SbeUse& use, const BatchTiming& timing, const SbeBoard& board) {
  const auto vectors = static_cast<double>(config.vectors());
  return {timing.cycles / vectors / board.clock_hz, timing.cycles / board.clock_hz, blocks_in(use), use.dsp,
          2 * static_cast<double>(timing.words) / vectors};
}

bool meets(const SbeGoal& goal, const Merits& merits) {
  return merits.slowness * goal.least_steps_per_second <= 1 && (goal.most_seconds <= 0 || merits.seconds <= goal.most_seconds);
}

// One value of chunks for every number of blocks that differs, from one block on.
std::vector<int64_t> chunk_sizes(int64_t chunks, int64_t most_blocks) {
  std::vector<int64_t> sizes;
  for (int64_t blocks = 1; blocks <= std::min(chunks, most_blocks); ++blocks)
    if (const int64_t size = divided_up(chunks, blocks); sizes.empty() || sizes.back() != size) sizes.push_back(size);
  return sizes;
}

// Points that nothing beats so far. The one that beat the last question is asked first.
class Front {
 public:
  struct Entry {
    Merits merits;
    SbeConfig config;
    int64_t order = 0;
  };

  bool beats(const Merits& bound) {
    for (size_t i = 0; i < entries_.size(); ++i)
      if (entries_[i].merits.no_worse_than(bound)) {
        std::swap(entries_[i], entries_[i / 2]);
        return true;
      }
    return false;
  }

  void add(Entry entry) {
    if (beats(entry.merits)) return;
    std::erase_if(entries_, [&](const Entry& other) { return entry.merits.no_worse_than(other.merits); });
    entries_.push_back(std::move(entry));
  }

  std::vector<Entry> sorted() && {
    const auto key = [](const Entry& entry) {
      const Merits& m = entry.merits;
      return std::tuple(m.slowness, m.bram36, m.dsp, m.seconds, m.bytes_per_step, entry.order);
    };
    std::ranges::sort(entries_, [&](const Entry& a, const Entry& b) { return key(a) < key(b); });
    return std::move(entries_);
  }

 private:
  std::vector<Entry> entries_;
};

// The least that each limit alone would have to be, over the points that all other limits allow.
class Remedies {
 public:
  Remedies(const SbeBoard& board, const SbeGoal& goal) : board_(board), goal_(goal), counter_(board) {}

  void see(const SbeConfig& config) {
    const SbeUse use = counter_.use_of(config);
    const std::vector<Lack> lacks = use.lacks(board_);
    if (lacks.size() > 1) return;
    const Merits bound = merits_of(config, use, batch_bound(config), board_);
    if (lacks.size() == 1) {
      Remedy* known = found(lacks.front().resource);
      if (!meets(goal_, bound) || (known != nullptr && known->needed <= lacks.front().wanted)) return;
      const BatchTiming timing = batch_timing(config);
      if (!timing.tail_keeps_up || !meets(goal_, merits_of(config, use, timing, board_))) return;
      keep({lacks.front().resource, lacks.front().there, lacks.front().wanted, point_of(config, board_)});
      return;
    }
    see_goal(config, use, bound);
  }

  std::vector<Remedy> all() && { return std::move(remedies_); }

 private:
  void see_goal(const SbeConfig& config, const SbeUse& use, const Merits& bound) {
    const auto judge = [&](const Merits& merits) {
      const bool slow = merits.slowness * goal_.least_steps_per_second > 1,
                 late = goal_.most_seconds > 0 && merits.seconds > goal_.most_seconds;
      return std::pair(slow, late);
    };
    if (const auto [slow, late] = judge(bound); slow && late) return;
    const Remedy *speed = found("steps_per_second"), *latency = found("seconds");
    if (speed != nullptr && 1 / bound.slowness <= speed->needed &&
        (latency == nullptr ? goal_.most_seconds <= 0 : bound.seconds >= latency->needed))
      return;
    const BatchTiming timing = batch_timing(config);
    if (!timing.tail_keeps_up) return;
    const Merits merits = merits_of(config, use, timing, board_);
    const auto [slow, late] = judge(merits);
    if (slow && !late && (speed == nullptr || 1 / merits.slowness > speed->needed))
      keep({"steps_per_second", goal_.least_steps_per_second, 1 / merits.slowness, point_of(config, board_)});
    if (late && !slow && (latency == nullptr || merits.seconds < latency->needed))
      keep({"seconds", goal_.most_seconds, merits.seconds, point_of(config, board_)});
  }

  Remedy* found(std::string_view limit) {
    const auto at = std::ranges::find(remedies_, limit, &Remedy::limit);
    return at == remedies_.end() ? nullptr : &*at;
  }
  void keep(Remedy remedy) {
    if (Remedy* known = found(remedy.limit))
      *known = std::move(remedy);
    else
      remedies_.push_back(std::move(remedy));
  }

  const SbeBoard& board_;
  const SbeGoal& goal_;
  UseCounter counter_;
  std::vector<Remedy> remedies_;
};

// Lanes, columns and tail units; goes on as long as `visit` says so.
void for_each_array(const SbeSpace& space, int64_t words_per_cycle, const std::function<bool(const SbeConfig&)>& visit) {
  SbeConfig config{
      .shape = space.shape, .latency = space.latency, .words_per_cycle = words_per_cycle, .inputs_share_bus = space.inputs_share_bus};
  int64_t units_before = 0;
  for (int64_t groups = 1; groups <= space.shape.hidden; ++groups) {
    const int64_t units = divided_up(space.shape.hidden, groups);
    if (units == units_before) continue;
    units_before = units;
    config.row_lanes = units * space.shape.gates;
    for (config.columns = 1; config.columns <= space.most_columns; config.columns *= 2)
      for (config.tail_units = 1; config.tail_units <= std::min(space.most_tail_units, units); config.tail_units *= 2)
        if ((!space.array_allowed || space.array_allowed(config)) && !visit(config)) return;
  }
}

}  // namespace

void for_each_config(const SbeSpace& space, int64_t words_per_cycle, const std::function<void(const SbeConfig&)>& visit) {
  SbeConfig config;
  const auto batches = [&] {
    for (config.streams = space.least_streams; config.streams <= space.most_streams; config.streams *= 2)
      for (config.steps = space.steps; config.steps >= 1; --config.steps)
        if (space.steps % config.steps == 0 && (!space.allowed || space.allowed(config))) visit(config);
  };
  const auto blocks = [&](Pinned pinned, int64_t chunks) {
    config.pinned = pinned;
    for (config.slots = 2; config.slots <= kMostSlotsTried; ++config.slots)
      for (const int64_t size : chunk_sizes(chunks, space.most_blocks)) {
        config.block_chunks = size;
        batches();
      }
  };
  for_each_array(space, words_per_cycle, [&](const SbeConfig& array) {
    config = array;
    config.pinned = Pinned::kAll;
    config.slots = 2;
    config.block_chunks = 0;
    batches();
    blocks(Pinned::kHidden, config.input_chunks());
    blocks(Pinned::kNone, config.input_chunks() + config.hidden_chunks());
    return true;
  });
}

bool has_array(const SbeSpace& space, int64_t words_per_cycle) {
  bool found = false;
  for_each_array(space, words_per_cycle, [&](const SbeConfig&) {
    found = true;
    return false;
  });
  return found;
}

SbePoint point_of(const SbeConfig& config, const SbeBoard& board) {
  SbePoint point{.config = config, .use = sbe_use(config, board), .timing = batch_timing(config)};
  const auto vectors = static_cast<double>(config.vectors());
  point.seconds = point.timing.cycles / board.clock_hz;
  point.steps_per_second = board.clock_hz / (point.timing.cycles / vectors);  // the same for the same cycles a step
  point.bytes_per_step = 2 * static_cast<double>(point.timing.words) / vectors;
  return point;
}

Exploration explore(const SbeSpace& space, const SbeBoard& board, const SbeGoal& goal) {
  if (space.shape.inputs < 1 || space.shape.hidden < 1 || space.shape.gates < 1 || space.steps < 1)
    fail(ErrorCode::kUsage, "an exploration of {} inputs, {} hidden units, {} gates, {} steps; each is at least 1", space.shape.inputs,
         space.shape.hidden, space.shape.gates, space.steps);
  Exploration exploration;
  Front front;
  UseCounter counter(board);
  bool too_large = false;  // whatever the batch
  for_each_config(space, board.words_per_cycle(), [&](const SbeConfig& config) {
    ++exploration.points;
    if (!space.allowed && config.streams == space.least_streams && config.steps == space.steps) {
      SbeConfig smallest = config;
      smallest.steps = 1;
      const SbeUse use = counter.use_of(smallest);
      too_large = use.bram36 - use.sums / 2 > board.bram36 || use.lut - use.lutram_lut > kUsableLuts * board.lut;
    }
    if (too_large) return;
    const SbeUse use = counter.use_of(config);
    if (!use.fits(board)) return;
    const BatchTiming bound = batch_bound(config);
    if (!bound.tail_keeps_up) return;
    ++exploration.feasible;
    const Merits best = merits_of(config, use, bound, board);
    if (!meets(goal, best) || front.beats(best)) return;
    ++exploration.timed;
    const Merits merits = merits_of(config, use, batch_timing(config), board);
    if (meets(goal, merits)) front.add({merits, config, exploration.points});
  });
  for (const Front::Entry& entry : std::move(front).sorted()) exploration.front.push_back(point_of(entry.config, board));
  if (exploration.front.empty()) {
    Remedies remedies(board, goal);
    for_each_config(space, board.words_per_cycle(), [&](const SbeConfig& config) { remedies.see(config); });
    exploration.remedies = std::move(remedies).all();
    return exploration;
  }
  exploration.fastest = exploration.front.front();
  const auto smaller = [](const SbePoint& a, const SbePoint& b) {
    return std::tuple(blocks_in(a.use), a.use.dsp, -a.steps_per_second) < std::tuple(blocks_in(b.use), b.use.dsp, -b.steps_per_second);
  };
  exploration.smallest = *std::ranges::min_element(exploration.front, smaller);
  return exploration;
}

std::string text_of(const SbeConfig& config) {
  const auto blocks = static_cast<int64_t>(blocks_of(config).size());
  const std::string weights = config.pinned == Pinned::kAll ? "all weights pinned"
                                                            : fmt::format("{} blocks in {} slots{}", blocks, config.slots,
                                                                          config.pinned == Pinned::kHidden ? ", h pinned" : "");
  return fmt::format("{} lanes x {} columns, {} tail units, {}, {} streams x {} steps", config.row_lanes, config.columns, config.tail_units,
                     weights, config.streams, config.steps);
}

}  // namespace millrace
