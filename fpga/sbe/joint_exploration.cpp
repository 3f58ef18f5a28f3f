#include "fpga/sbe/joint_exploration.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {

namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// What a way to build one or several engines takes; all add up.
struct Needs {
  double slices = 0, luts = 0, lutram = 0, bram36 = 0, uram = 0;
  double bytes = 0;  // of a sequence, over the memory's bus

  bool no_more_than(const Needs& other) const {
    return slices <= other.slices && luts <= other.luts && lutram <= other.lutram && bram36 <= other.bram36 && uram <= other.uram &&
           bytes <= other.bytes;
  }
  Needs operator+(const Needs& other) const {
    return {slices + other.slices, luts + other.luts, lutram + other.lutram, bram36 + other.bram36, uram + other.uram, bytes + other.bytes};
  }
  void hold_least(const Needs& other) {
    slices = std::min(slices, other.slices);
    luts = std::min(luts, other.luts);
    lutram = std::min(lutram, other.lutram);
    bram36 = std::min(bram36, other.bram36);
    uram = std::min(uram, other.uram);
    bytes = std::min(bytes, other.bytes);
  }
  double blocks() const { return bram36 + uram * kUramBits / kBram36Bits; }
};

struct Way {
  Needs needs;
  double seconds = 0;  // a sequence
  SbeConfig config;
};

// What a board has for these engines.
class Room {
 public:
  Room(const SbeBoard& board, const BoardShare& taken)
      : slices_(std::max(0.0, board.dsp - taken.dsp)),
        luts_(kUsableLuts * board.lut - taken.lut),
        lutram_(board.lutram_lut),
        bram36_(board.bram36 - taken.bram36),
        uram_(board.uram),
        bytes_per_second_(board.bytes_per_second) {}

  bool holds(const Needs& n) const {
    return n.bram36 <= bram36_ && n.uram <= uram_ && n.lutram <= lutram_ &&
           n.luts + std::max(0.0, n.slices - slices_) * kLutsOfFabricMultiplier <= luts_;
  }
  double bus_seconds(const Needs& n) const { return bytes_per_second_ > 0 ? n.bytes / bytes_per_second_ : 0; }

 private:
  double slices_, luts_, lutram_, bram36_, uram_, bytes_per_second_;
};

// All of a layer's ways but those that another beats in time and every resource.
std::vector<Way> ways_of(const SbeSpace& space, const SbeBoard& board, const Room& room) {
  std::vector<Way> ways;
  UseCounter counter(board);
  // What beat the last one is asked early.
  const auto beaten = [&ways](const Way& way) {
    for (size_t i = 0; i < ways.size(); ++i)
      if (ways[i].seconds <= way.seconds && ways[i].needs.no_more_than(way.needs)) {
        std::swap(ways[i], ways[i / 2]);
        return true;
      }
    return false;
  };
  for_each_config(space, board.words_per_cycle(), [&](const SbeConfig& config) {
    const SbeUse use = counter.use_of(config);
    const auto fabric = static_cast<double>(use.fabric_multipliers);
    Way way{.needs = {.slices = use.dsp + fabric,
                      .luts = use.lut - fabric * kLutsOfFabricMultiplier,
                      .lutram = use.lutram_lut,
                      .bram36 = use.bram36,
                      .uram = use.uram},
            .config = config};
    if (!room.holds(way.needs)) return;
    const double batches = static_cast<double>(space.steps / config.steps) / static_cast<double>(config.streams);
    const auto time = [&](const BatchTiming& timing) {
      way.needs.bytes = 2 * batches * static_cast<double>(timing.words);
      way.seconds = batches * timing.cycles / board.clock_hz;
      return timing.tail_keeps_up && !beaten(way);
    };
    if (!time(batch_bound(config)) || !time(batch_timing(config))) return;
    std::erase_if(ways, [&](const Way& other) { return way.seconds <= other.seconds && way.needs.no_more_than(other.needs); });
    ways.push_back(std::move(way));
  });
  return ways;
}

auto numbers_of(const SbeSpace& s) {
  return std::tuple(s.shape.inputs, s.shape.hidden, s.shape.gates, s.shape.projection, s.steps, s.least_streams, s.most_columns,
                    s.most_tail_units, s.most_blocks, s.latency, s.inputs_share_bus);
}

// Of one layer's ways within a period, those that no other beats, by rising blocks; and the least of each resource.
struct Candidates {
  std::vector<const Way*> ways;
  Needs least;
};

// All that a layer could be, and its candidates within the periods that were asked for.
class LayerWays {
 public:
  explicit LayerWays(std::vector<Way> ways) : ways_(std::move(ways)) {
    for (const Way& way : ways_) seconds_.push_back(way.seconds);
    std::ranges::sort(seconds_);
  }
  const std::vector<double>& seconds() const { return seconds_; }  // rising

  std::shared_ptr<const Candidates> within(double period) const {
    const auto fast = to_size(std::ranges::upper_bound(seconds_, period) - seconds_.begin());
    const std::lock_guard lock(mutex_);
    std::shared_ptr<const Candidates>& known = known_[fast];
    if (known == nullptr) known = std::make_shared<const Candidates>(candidates_of(period));
    return known;
  }

 private:
  Candidates candidates_of(double period) const {
    std::vector<const Way*> all;
    for (const Way& way : ways_)
      if (way.seconds <= period) all.push_back(&way);
    std::ranges::stable_sort(all, {}, [](const Way* way) { return way->needs.blocks(); });
    Candidates kept;
    for (const Way* way : all) {
      if (std::ranges::any_of(kept.ways, [&](const Way* other) { return other->needs.no_more_than(way->needs); })) continue;
      std::erase_if(kept.ways, [&](const Way* other) { return way->needs.no_more_than(other->needs); });
      kept.ways.push_back(way);
    }
    if (!kept.ways.empty()) kept.least = kept.ways.front()->needs;
    for (const Way* way : kept.ways) kept.least.hold_least(way->needs);
    return kept;
  }

  std::vector<Way> ways_;
  std::vector<double> seconds_;
  mutable std::mutex mutex_;
  mutable std::map<size_t, std::shared_ptr<const Candidates>> known_;  // by how many ways are fast enough
};

}  // namespace

struct KnownLayers::Kept {
  std::mutex mutex;
  std::map<std::tuple<SbeBoard, decltype(numbers_of({}))>, std::shared_ptr<const LayerWays>> of_layers;
};

KnownLayers::KnownLayers() : kept_(std::make_shared<Kept>()) {}

class JointExplorer::Together {
 public:
  Together(std::span<const SbeSpace> spaces, const SbeBoard& board, KnownLayers::Kept& known) : board_(board) {
    const Room whole(board, {});
    for (size_t layer = 0; layer < spaces.size(); ++layer) {
      size_t alike = 0;
      while (alike < layer && numbers_of(spaces[alike]) != numbers_of(spaces[layer])) ++alike;
      alike_.push_back(alike);
      const std::lock_guard lock(known.mutex);
      std::shared_ptr<const LayerWays>& ways = known.of_layers[{board, numbers_of(spaces[layer])}];
      if (ways == nullptr) ways = std::make_shared<const LayerWays>(ways_of(spaces[layer], board, whole));
      layers_.push_back(ways);
      if (alike == layer) periods_.insert(periods_.end(), ways->seconds().begin(), ways->seconds().end());
    }
    std::ranges::sort(periods_);
    periods_.erase(std::unique(periods_.begin(), periods_.end()), periods_.end());
  }

  // The fastest on fewer blocks than `blocks`, and of those alike the one of fewest blocks.
  std::optional<JointChoice> fastest_below(double blocks, const BoardShare& taken) const {
    const Room room(board_, taken);
    size_t low = 0, high = periods_.size();  // the first period that does
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (within(room, periods_[middle], blocks, periods_[middle]))
        high = middle;
      else
        low = middle + 1;
    }
    // Engines faster than that, and the bus sets the pace between two periods; beyond the last, too.
    const std::optional<JointChoice> of_bus = low > 0 ? within(room, periods_[low - 1], blocks, kNoLimit) : std::nullopt;
    std::optional<JointChoice> of_engines = low < periods_.size() ? within(room, periods_[low], blocks, periods_[low]) : std::nullopt;
    if (of_bus && (!of_engines || of_bus->seconds < of_engines->seconds)) return within(room, periods_[low - 1], blocks, of_bus->seconds);
    return of_engines;
  }

 private:
  struct Search {
    std::vector<std::shared_ptr<const Candidates>> layers;
    std::vector<Needs> least_behind;  // of all layers from this one on
    double blocks = 0, most_seconds = 0;
    bool by_bus = false;
    std::vector<size_t> places, best;
    double best_key = kNoLimit;
  };

  // Engines that take at most `period` each, on a bus that takes at most `most_seconds`: the fewest seconds of the bus, where
  // `most_seconds` is infinite, else the fewest blocks.
  std::optional<JointChoice> within(const Room& room, double period, double blocks, double most_seconds) const {
    Search search{.layers = {},
                  .least_behind = {},
                  .blocks = blocks,
                  .most_seconds = most_seconds,
                  .by_bus = most_seconds == kNoLimit,
                  .places = std::vector<size_t>(layers_.size()),
                  .best = {}};
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      search.layers.push_back(layers_[layer]->within(period));
      if (search.layers.back()->ways.empty()) return std::nullopt;
    }
    search.least_behind.resize(layers_.size() + 1);
    for (size_t layer = layers_.size(); layer-- > 0;)
      search.least_behind[layer] = search.least_behind[layer + 1] + search.layers[layer]->least;
    visit(room, search, 0, {});
    if (search.best.empty()) return std::nullopt;
    JointChoice choice;
    Needs all;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const Way& way = *search.layers[layer]->ways[search.best[layer]];
      choice.configs.push_back(way.config);
      choice.seconds = std::max(choice.seconds, way.seconds);
      all = all + way.needs;
    }
    choice.seconds = std::max(choice.seconds, room.bus_seconds(all));
    choice.bram36 = all.blocks();
    choice.slices = all.slices;
    return choice;
  }

  void visit(const Room& room, Search& search, size_t layer, const Needs& before) const {
    const Needs at_least = before + search.least_behind[layer];
    const double key = search.by_bus ? room.bus_seconds(at_least) : at_least.blocks();
    if (key >= search.best_key || at_least.blocks() >= search.blocks || room.bus_seconds(at_least) > search.most_seconds ||
        !room.holds(at_least))
      return;
    if (layer == search.layers.size()) {
      search.best = search.places;
      search.best_key = key;
      return;
    }
    // Layers alike take their ways in one order.
    const bool ordered = layer > 0 && alike_[layer] < layer && (alike_[layer] == layer - 1 || alike_[layer] == alike_[layer - 1]);
    const Candidates& here = *search.layers[layer];
    for (size_t place = ordered ? search.places[layer - 1] : 0; place < here.ways.size(); ++place) {
      search.places[layer] = place;
      visit(room, search, layer + 1, before + here.ways[place]->needs);
    }
  }

  SbeBoard board_;
  std::vector<std::shared_ptr<const LayerWays>> layers_;
  std::vector<size_t> alike_;  // the first layer of the same ways
  std::vector<double> periods_;
};

JointExplorer::JointExplorer(std::span<const SbeSpace> layers, const SbeBoard& board, const KnownLayers& known) {
  if (layers.empty()) fail(ErrorCode::kUsage, "an exploration of no layers");
  for (const SbeSpace& space : layers)
    if (space.least_streams != space.most_streams)
      fail(ErrorCode::kUsage, "layers on one board take the same sequences side by side; {} to {} leave it open", space.least_streams,
           space.most_streams);
  together_ = std::make_shared<const Together>(layers, board, *known.kept_);
}

JointExploration JointExplorer::within(const BoardShare& taken, size_t most) const {
  JointExploration found;
  double blocks = kNoLimit;
  while (found.front.size() < most) {
    std::optional<JointChoice> next = together_->fastest_below(blocks, taken);
    if (!next) break;
    blocks = next->bram36;
    if (!found.front.empty() && next->seconds == found.front.back().seconds) found.front.pop_back();
    found.front.push_back(std::move(*next));
    if (blocks <= 0) break;
  }
  if (!found.front.empty()) found.fastest = found.front.front();
  return found;
}

JointExploration explore_together(std::span<const SbeSpace> layers, const SbeBoard& board, const BoardShare& taken, size_t most,
                                  const KnownLayers& known) {
  return JointExplorer(layers, board, known).within(taken, most);
}

}  // namespace millrace
