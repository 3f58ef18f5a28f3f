// What a stretch of the chain demands of one device, and how far a device can go.
//
//   const SegmentLoads loads(chain, task, lifetimes, micro_batch, windows);
//   if (loads.fits(d, from, to, period)) ...
//   int64_t furthest = loads.reach(d, from, period);             // the largest `to` that still fits
//   int64_t nearest = loads.reach_back(d, to, period);           // the smallest `from`
//
// Demands add up over the shards of a stretch and never fall as it grows or the period shrinks (cost_model.h), so both
// reaches are found by walking whole layers and bisecting in the last one: O(layers passed + log units).
// `Storage` says what the memory must hold besides activations and buffers: the parameters of the stretch, or none of
// them, when they may be stored elsewhere. A stretch that ends among the layers at the network's end that the device keeps off chip
// (an FPGA's dense layers) keeps all its weights there. FPDeep gives it no more convolutions than would fit on chip all the same; with
// `spared_off_chip` it may have them, and longer stretches can demand less: those with and without such a layer are told apart (`Ends`).
// With full accounting only the layers that a device keeps off chip are there, whatever else it holds (but for `all_off_chip`) and but for
// those that options.on_chip names, and their weights take seconds of that memory: so many a sample at most as the period has. Of layers
// that options.off_chip names each board keeps as many beside their engines as it has room for (stretch_load.h).
// Where samples come in micro-batches, rows wait for whole ones: of devices whose rows stream, activations live longer by the samples that
// a micro-batch has besides, and, in a ring with devices that take turns, by the micro-batches that those have under way. Full accounting
// holds whole rows and one more, which is being filled while the others wait; FPDeep's formulas are of a memory that works pixel by pixel.
// Borrows the task's graph and cost models. Immutable, thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/index.h"
#include "core/plan/retention.h"
#include "partitioner/hybrid/chain.h"
#include "partitioner/planning/planning.h"

namespace millrace {

struct Storage {
  bool parameters = false;       // count the stretch's own parameters
  double share = 1;              // of the parameter memory that may be used
  bool spared_off_chip = false;  // do not count those of a stretch that keeps all its weights off chip
  bool undecided_fits = false;   // a stretch that nobody shows not to fit counts as one that does
};

// What the search for how far devices go has found for other periods: a longer one leads as far at least. Thread safe.
class KnownReaches {
 public:
  struct From {
    size_t kind = 0;     // of device
    size_t periods = 0;  // CostModel::kind_of_period
    int64_t position = 0;
    bool back = false;
    Storage storage = {};
    bool operator<(const From& other) const {
      const auto key = [](const From& from) {
        return std::tuple(from.kind, from.periods, from.position, from.back, from.storage.parameters, from.storage.share,
                          from.storage.spared_off_chip, from.storage.undecided_fits);
      };
      return key(*this) < key(other);
    }
  };
  // Where the next shorter period and the next longer one lead, or that very one both.
  struct Between {
    std::optional<int64_t> shorter, longer;
    bool is_known() const { return shorter && shorter == longer; }
  };
  Between find(const From& from, double period) const;
  void add(const From& from, double period, int64_t reached);

 private:
  mutable std::mutex mutex_;
  std::map<From, std::map<double, int64_t>> known_;  // by period
};

inline constexpr std::string_view kEngine = "engine";  // as a resource: one that does what is asked

struct Overrun {
  std::string resource;  // empty: it fits
  double missing = 0;
};

// How a device holds a shard that leaves it a choice.
struct ShardWay {
  int64_t group = 0;
  bool streams = false;    // its weights come from the device's own memory
  int64_t most_tiles = 0;  // as ShardQuestion has it
  bool operator==(const ShardWay&) const = default;
};
using ShardWays = std::vector<ShardWay>;  // by group; those that are not named have the smallest engine, with the weights beside it

// Units of one group, on a device and within a period.
struct ShardLoad {
  struct Other {
    ShardWay way;
    ShardDemand demand;
  };
  int64_t group = 0, from = 0, to = 0;
  ShardDemand beside;       // where the device keeps the weights, on chip if it may choose, with the smallest engine
  bool may_stream = false;  // the device may choose, and keeps them nowhere else
  // When they were asked for: with streamed weights, and with larger engines.
  struct Ways {
    std::optional<std::vector<Other>> streamed, larger;
  };
  std::shared_ptr<Ways> ways;  // where the device has a choice; shared by copies
};

class StretchLoad;

class SegmentLoads {
 public:
  SegmentLoads(const Chain& chain, const PlanTask& task, std::vector<double> lifetimes, int64_t micro_batch, std::vector<int64_t> windows);

  const Chain& chain() const { return *chain_; }
  int64_t devices() const { return static_cast<int64_t>(task_->models.size()); }
  const CostModel& model(int64_t device) const { return *fast_item(task_->models, device); }

  // Devices of one kind answer alike.
  size_t kind_of(int64_t device) const { return fast_item(kinds_, device); }

  // Stretches that end beyond this keep their weights off chip.
  int64_t off_chip_from(int64_t device) const { return fast_item(off_chip_from_, device); }

  // What walks over the devices, for one period, have found out: what whole layers demand, and how much of a layer a device took last, near
  // which the next is looked for. Answers are the same without it.
  class Found {
   public:
    explicit Found(const SegmentLoads& loads);

   private:
    friend class SegmentLoads;
    std::vector<std::optional<ShardLoad>> whole_;  // by kind of device and layer
    std::vector<int64_t> taken_;                   // likewise, in units; 0: none yet
  };

  // Where stretches from `from` may end: up to `on_chip` without a layer that is kept off chip; with one, from there up to
  // `off_chip`. `from` where there is no such end.
  struct Ends {
    int64_t on_chip = 0, off_chip = 0;
  };
  Ends ends(int64_t device, int64_t from, double period, const Storage& storage = {}, Found* found = nullptr) const;
  bool fits(int64_t device, int64_t from, int64_t to, double period, const Storage& storage = {}, Found* found = nullptr) const;
  int64_t reach(int64_t device, int64_t from, double period, const Storage& storage = {}, Found* found = nullptr) const;
  int64_t reach_back(int64_t device, int64_t to, double period, const Storage& storage = {}, Found* found = nullptr) const;
  // Units [from, to) of one group, with its weights kept off chip or not.
  ShardDemand shard(int64_t device, int64_t group, int64_t from, int64_t to, double period, bool off_chip) const;
  ShardLoad load(int64_t device, int64_t group, int64_t from, int64_t to, double period, bool off_chip = false) const;
  // With weights from the device's own memory: no less of anything but the memory for parameters.
  ShardDemand streamed_demand(int64_t device, const ShardLoad& shard, double period) const;
  // Likewise with larger engines that take less memory, weights beside them or not.
  std::vector<ShardLoad::Other> larger_engines(int64_t device, const ShardLoad& shard, double period) const;
  // That words from outside may take of a period.
  double seconds_outside(int64_t device, double period) const { return period - seconds_waiting(device); }
  // Engines as they are built: a larger one may read fewer words than the smallest.
  bool counts_built() const {
    return task_->options.streamed_words == StreamedWords::kBuilt || task_->options.streamed_words == StreamedWords::kLeastBuilt;
  }
  // Whether the device may have such engines.
  bool enlarges(int64_t device) const { return fast_item(enlarges_, device); }
  bool builds(int64_t device) const { return task_->options.accounting == Accounting::kFull && model(device).dedicated_engines(); }
  // Whether a device goes no further in a shorter period: engines that are built may take less memory there, where larger ones are not
  // looked at. `mostly`: but for grouped convolutions, of which none are.
  bool is_monotone(int64_t device, bool mostly = false) const {
    return !parts_may_take_more() && (!builds(device) || (enlarges(device) && (mostly || !some_grouped_)));
  }
  // Whether the device streams this group's weights if it has no room for them beside the engine.
  bool chooses(int64_t device, int64_t group) const { return fast_item(chooses_, device) && fast_item(off_chip_, group); }
  // Of a stretch that fits: as few words from outside as can be, or as much room as can be for weights of other devices. No engine is
  // larger than need be where the smallest ones fit.
  ShardWays ways(int64_t device, int64_t from, int64_t to, double period, bool least_room) const;
  // The same of engines as they are built, in a ring whose period is known: as fast as the memory outside lets them be. Nothing where they
  // do not fit. Weights of a device that enlarges none stay where they are placed.
  std::optional<ShardWays> built_ways(int64_t device, int64_t from, int64_t to, double period, double ring_period,
                                      const ShardWays& placed) const;
  // Says in a question where its weights lie, and how large its engine is; the stretch may keep all its weights off chip.
  void place_weights(int64_t device, int64_t group, const ShardWays& ways, bool off_chip, ShardQuestion& question) const;
  bool within(int64_t device, const ShardDemand& sum, double period, const Storage& storage) const;
  // Sums over a stretch, with no weights streamed that may lie beside their engine.
  ShardDemand demand(int64_t device, int64_t from, int64_t to, double period) const;
  // The resource that a stretch overruns the most, relative to its capacity.
  Overrun overrun(int64_t device, int64_t from, int64_t to, double period, const Storage& storage = {}) const;

  // The question about blocks of one group that end at position `to`; while cuts are searched, with a latency that many devices
  // share and none exceeds, and as if images came at the engines' period. Where cuts are known, so is the ring's.
  ShardQuestion question(int64_t device, int64_t group, int64_t to, double period, const BlockList& blocks) const;
  ShardQuestion exact_question(int64_t device, int64_t group, int64_t to, double period, double ring_period, const BlockList& blocks) const;
  // Its answer, with weights that are needed at every step, or looked up, counted where they are used.
  ShardDemand demand_of(int64_t device, const ShardQuestion& question) const;
  // Whether some stretch was neither found to fit nor shown not to (StretchLoad): it counts as one that does not, so that a plan is one,
  // and for whoever asks for what is impossible as one that does. Where parts of a layer may move more than the whole, as soon as asked.
  bool any_undecided() const { return undecided_ || parts_may_take_more(); }
  void note_undecided() const { undecided_ = true; }
  // A layer that keeps its weights off chip takes all of the device's weights there.
  bool takes_all_off_chip() const { return task_->options.accounting == Accounting::kFpdeep || task_->options.all_off_chip; }
  // Whether a stretch has such a layer. The search counts the weights of the others on chip, unless they are spared.
  bool off_chip(int64_t device, int64_t from, int64_t to) const;

 private:
  // Of a shard, than the whole.
  bool parts_may_take_more() const {
    return task_->options.streamed_words == StreamedWords::kOfEngine || task_->options.streamed_words == StreamedWords::kBuilt;
  }
  double seconds_waiting(int64_t device) const {
    return task_->options.waiting_seconds.empty() ? 0 : fast_item(task_->options.waiting_seconds, device);
  }
  double lifetime(int64_t device, int64_t group, double latency, double period) const;
  ShardDemand no_less_than(int64_t device, const ShardDemand& least, ShardDemand demand) const;
  // With the parameters counted that a stretch to there keeps on chip.
  Storage storage_to(int64_t device, int64_t to, const Storage& storage) const;
  // Where the longest stretch ends that fits, from a position on to the chain's end or back to its beginning.
  int64_t furthest(int64_t device, int64_t from, bool back, double period, const Storage& storage, Found* found) const;
  int64_t beyond(int64_t group, int64_t from, int64_t units, int64_t most, bool back, const std::function<bool(int64_t)>& takes) const;
  ShardLoad least_load(int64_t device, int64_t group, int64_t from, int64_t to, double period) const;
  ShardLoad load_of_all_ways(int64_t device, ShardLoad shard, ShardQuestion& asked, const ShardWays* placed) const;
  // Units [from, to) of one group, which become `part`: what is known of whole layers is not asked again.
  ShardLoad& load_of(ShardLoad& part, int64_t device, int64_t group, int64_t from, int64_t to, double period, Found* found) const;
  // Whether the stretch takes them.
  bool fits_with(StretchLoad& stretch, ShardLoad& part, int64_t device, int64_t group, int64_t from, int64_t to, double period,
                 Found* found) const;
  size_t place_of(int64_t device, int64_t group) const { return kind_of(device) * to_size(chain_->groups()) + to_size(group); }

  const Chain* chain_;
  const PlanTask* task_;
  struct Rows {
    double of_input = 1;
    double reach = 1;  // that FP needs at once
  };
  std::vector<double> lifetimes_;         // per group
  std::vector<Rows> rows_;                // likewise
  std::vector<double> latency_seconds_;   // per device, to the ring's end and back; 0 where the formulas leave it out
  std::vector<double> searched_latency_;  // the same in a few steps, upwards: devices of a step answer alike
  std::vector<double> waiting_;           // per device, samples: what micro-batches add to every lifetime
  int64_t micro_batch_;
  std::vector<int64_t> windows_;  // per device
  HeldByDevice held_;             // by devices that take turns
  std::vector<size_t> kinds_;     // per device
  std::vector<int64_t> off_chip_from_;
  std::vector<bool> on_chip_;   // per group: options.on_chip
  std::vector<bool> off_chip_;  // likewise
  std::vector<bool> chooses_;   // per device
  std::vector<bool> enlarges_;  // likewise
  bool some_grouped_ = false;   // convolutions
  mutable std::atomic<bool> undecided_ = false;
  mutable KnownReaches reaches_;
  int64_t gradient_samples_ = 0;       // of a pass over gradients off chip; 0: not counted
  int64_t gradient_samples_held_ = 0;  // of them in memory; 0: all
};

}  // namespace millrace
