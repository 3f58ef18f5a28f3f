// What a stretch of the chain demands of one device, whichever of its layers stream their weights from the device's own memory, and however
// large their engines are.
//
//   StretchLoad load(segments, device, period, storage);
//   ShardLoad shard = segments.load(device, group, from, to, period);
//   if (load.fits_with(shard)) load.add(shard);
//   const ShardWays ways = *load.ways(/*least_room=*/false);         // mostly none
//
// Weights of layers that a board may place as it likes (SegmentLoads::chooses) lie beside their engine, where they take room, or come from
// the board's own memory with every row, which takes time of that memory. An engine that is faster than the period may take less memory
// than the smallest that keeps it, for more multipliers. A board has so much of each. The way that fits, or fits best, is found by branch
// and bound: layers are turned first that free the most room for what it costs, and what all of them could do at best, the last of them in
// part, bounds what is left. So answers are exact: a stretch fits when some way does, and so also for every longer period. But for one that
// is neither found to fit nor shown not to in some hundred steps: it counts as one that fits, and a plan is looked at once more as it is
// built. Nothing is searched while all fits with the smallest engines and all weights beside them, and larger engines are looked at only
// where nothing fits without. Borrows the loads. Internal to partitioner/hybrid.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/hybrid/segment_load.h"

namespace millrace {

class StretchLoad {
 public:
  StretchLoad(const SegmentLoads& segments, int64_t device, double period, const Storage& storage)
      : StretchLoad(segments, device, period, storage, segments.seconds_outside(device, period)) {}
  // With another time for words from outside than engines are sized for.
  StretchLoad(const SegmentLoads& segments, int64_t device, double period, const Storage& storage, double most_seconds)
      : segments_(&segments), device_(device), period_(period), most_seconds_(most_seconds), storage_(storage) {}

  void add(const ShardLoad& shard);
  // With one shard more, which learns what it demands where its weights are streamed, if need be.
  bool fits_with(ShardLoad& shard);
  // Of the ways that fit the one that takes the least of the memory for parameters, with one shard more if given.
  std::optional<ShardDemand> smallest(ShardLoad* more = nullptr);
  // No way that fits takes less of the memory for parameters than this; quick, and mostly no more than a layer's room below `smallest`.
  // Nothing where none fits, which is shown then.
  std::optional<ShardDemand> least_of_all(ShardLoad* more = nullptr);
  // That where the fewest seconds go to words from outside, or the least room is taken; nothing where none fits.
  std::optional<ShardWays> ways(bool least_room);
  // Likewise, also with larger engines where the smallest would do.
  std::optional<ShardWays> fastest();

 private:
  enum class Wish { kAny, kFewestSeconds, kLeastRoom };
  struct Way {
    ShardDemand sum;
    ShardWays ways;
  };
  class Search;
  bool within(const ShardDemand& sum) const { return segments_->within(device_, sum, most_seconds_, storage_); }
  bool may_stream() const { return streaming_ > 0; }
  bool has_choice(const ShardLoad* more) const;
  void ask(ShardLoad& shard, bool larger) const;
  // With one shard more, if given.
  std::optional<Way> best(Wish wish, ShardLoad* more = nullptr);
  std::optional<Way> best(Wish wish, bool larger, ShardLoad* more);
  std::vector<const ShardLoad*> ask_all(bool larger, ShardLoad* more);

  const SegmentLoads* segments_;
  int64_t device_;
  double period_, most_seconds_;
  Storage storage_;
  ShardDemand beside_;     // where no weights are streamed
  int64_t streaming_ = 0;  // shards that may
  std::vector<ShardLoad> shards_;
  bool gave_up_ = false;  // the last search did
};

}  // namespace millrace
