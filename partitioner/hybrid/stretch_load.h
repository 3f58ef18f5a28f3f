// What a stretch of the chain demands of one device, whichever of its layers stream their weights from the device's own memory.
//
//   StretchLoad load(segments, device, period, storage);
//   ShardLoad shard = segments.load(device, group, from, to, period);
//   if (load.fits_with(shard)) load.add(shard);
//   const std::vector<int64_t> groups = *load.streamed();         // mostly none
//
// Weights of layers that a board may place as it likes (SegmentLoads::chooses) lie beside their engine, where they take room, or come from
// the board's own memory with every row, which takes time of that memory. A board has so much of both. The way that fits, or fits best, is
// found by branch and bound: layers are streamed first that free the most room for their time, and what all of them could do at best, the
// last of them in part, bounds what is left. So answers are exact: a stretch fits when some way does. Nothing is searched while all weights
// fit beside their engines. Borrows the loads. Internal to partitioner/hybrid.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/hybrid/segment_load.h"

namespace millrace {

class StretchLoad {
 public:
  StretchLoad(const SegmentLoads& segments, int64_t device, double period, const Storage& storage)
      : segments_(&segments), device_(device), period_(period), storage_(storage) {}

  void add(const ShardLoad& shard);
  // With one shard more, which learns what it demands where its weights are streamed, if need be.
  bool fits_with(ShardLoad& shard);
  // Of the ways that fit the one that takes the least of the memory for parameters, with one shard more if given.
  std::optional<ShardDemand> smallest(ShardLoad* more = nullptr);
  // The groups that stream where the fewest seconds go to words from outside, or where the least room is taken; nothing where no way fits.
  std::optional<std::vector<int64_t>> streamed(bool least_room);

 private:
  enum class Wish { kAny, kFewestSeconds, kLeastRoom };
  struct Way {
    ShardDemand sum;
    std::vector<bool> streams;  // by shard
  };
  class Search;
  bool within(const ShardDemand& sum) const { return segments_->within(device_, sum, period_, storage_); }
  bool may_stream() const { return streaming_ > 0; }
  void ask_streamed(ShardLoad& shard) const;
  // With one shard more, if given.
  std::optional<Way> best(Wish wish, ShardLoad* more = nullptr);

  const SegmentLoads* segments_;
  int64_t device_;
  double period_;
  Storage storage_;
  ShardDemand beside_;     // where no weights are streamed
  int64_t streaming_ = 0;  // shards that may
  std::vector<ShardLoad> shards_;
};

}  // namespace millrace
