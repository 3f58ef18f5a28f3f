#include "partitioner/hybrid/stretch_load.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace millrace {

namespace {

ShardDemand sum_of(ShardDemand sum, const ShardDemand& part) { return sum += part; }

bool undercuts(const ShardDemand& a, const ShardDemand& b) {
  if (a.seconds > b.seconds) return false;
  for (size_t i = 0; i < a.amounts.size(); ++i)
    if (a.amounts[i] > b.amounts[i]) return false;
  return true;
}

}  // namespace

void StretchLoad::add(const ShardLoad& shard) {
  beside_ += shard.beside;
  streaming_ += shard.may_stream ? 1 : 0;
  shards_.push_back(shard);
}

void StretchLoad::ask_streamed(ShardLoad& shard) const {
  if (shard.may_stream && !shard.streamed) shard.streamed = segments_->streamed_demand(device_, shard, period_);
}

std::vector<StretchLoad::Way> StretchLoad::extended(const std::vector<Way>& ways, ShardLoad& shard) const {
  ask_streamed(shard);
  std::vector<Way> all;
  for (size_t w = 0; w < ways.size(); ++w) {
    const auto consider = [&](const ShardDemand& demand, bool streams) {
      const Way way{sum_of(ways[w].sum, demand), w, streams};
      if (within(way.sum)) all.push_back(way);
    };
    consider(shard.beside, false);
    if (shard.streamed) consider(*shard.streamed, true);
  }
  if (!shard.streamed) return all;
  const size_t memory = segments_->model(device_).parameter_memory();
  std::ranges::stable_sort(all, {}, [memory](const Way& way) { return std::tuple(way.sum.amounts[memory], way.sum.seconds); });
  std::vector<Way> kept;
  double fewest_seconds = std::numeric_limits<double>::infinity();
  for (const Way& way : all) {
    // Those before take no more room; what takes fewer seconds than all of them none undercuts, else most likely one of the last does.
    const bool fastest = way.sum.seconds < fewest_seconds;
    if (!fastest && std::any_of(kept.rbegin(), kept.rend(), [&](const Way& known) { return undercuts(known.sum, way.sum); })) continue;
    fewest_seconds = std::min(fewest_seconds, way.sum.seconds);
    kept.push_back(way);
  }
  return kept;
}

const std::vector<StretchLoad::Way>& StretchLoad::ways() {
  if (extended_ == 0) ways_ = {Way{}};
  for (; extended_ < shards_.size(); ++extended_) ways_ = extended(ways_, shards_[extended_]);
  return ways_;
}

bool StretchLoad::fits_with(ShardLoad& shard) {
  ShardDemand sum = sum_of(beside_, shard.beside);
  if (within(sum)) return true;
  if (!may_stream() && !shard.may_stream) return false;
  // Streamed weights leave room in the memory alone.
  sum.amounts[segments_->model(device_).parameter_memory()] = 0;
  if (!within(sum)) return false;
  const std::vector<Way>& known = ways();
  const auto some_fit = [&](const ShardDemand& demand) {
    return std::ranges::any_of(known, [&](const Way& way) { return within(sum_of(way.sum, demand)); });
  };
  if (some_fit(shard.beside)) return true;
  ask_streamed(shard);
  return shard.streamed && some_fit(*shard.streamed);
}

std::optional<ShardDemand> StretchLoad::smallest(ShardLoad* more) {
  if (!may_stream() && (more == nullptr || !more->may_stream)) {
    const ShardDemand sum = more == nullptr ? beside_ : sum_of(beside_, more->beside);
    return within(sum) ? std::optional(sum) : std::nullopt;
  }
  const std::vector<Way> all = more == nullptr ? ways() : extended(ways(), *more);
  const size_t memory = segments_->model(device_).parameter_memory();
  const auto least = std::ranges::min_element(all, {}, [memory](const Way& way) { return way.sum.amounts[memory]; });
  return least == all.end() ? std::nullopt : std::optional(least->sum);
}

std::optional<std::vector<int64_t>> StretchLoad::streamed(bool least_room) {
  if (!least_room && within(beside_)) return std::vector<int64_t>();
  std::vector<std::vector<Way>> passed{{Way{}}};
  for (ShardLoad& shard : shards_) passed.push_back(extended(passed.back(), shard));
  const size_t memory = segments_->model(device_).parameter_memory();
  const auto rank = [&](const Way& way) {
    const double room = way.sum.amounts[memory];
    return least_room ? std::pair(room, way.sum.seconds) : std::pair(way.sum.seconds, room);
  };
  const auto best = std::ranges::min_element(passed.back(), {}, rank);
  if (best == passed.back().end()) return std::nullopt;
  std::vector<int64_t> groups;
  const Way* way = &*best;
  for (size_t s = shards_.size(); s-- > 0; way = &passed[s][way->before])
    if (way->streams) groups.push_back(shards_[s].group);
  std::ranges::sort(groups);
  return groups;
}

}  // namespace millrace
