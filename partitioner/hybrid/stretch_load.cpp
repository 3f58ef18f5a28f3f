#include "partitioner/hybrid/stretch_load.h"

#include <algorithm>
#include <limits>
#include <span>

namespace millrace {
namespace {

ShardDemand sum_of(ShardDemand sum, const ShardDemand& part) { return sum += part; }

constexpr double kRounding = 1e-12;  // sums in another order

}  // namespace

// Which of the shards to stream. The sums that bound are in the order of the search; what is answered is added up in the shards' own.
class StretchLoad::Search {
 public:
  Search(const StretchLoad& stretch, std::vector<const ShardLoad*> shards, Wish wish)
      : stretch_(&stretch), shards_(std::move(shards)), wish_(wish), streams_(shards_.size(), false) {
    const CostModel& model = stretch.segments_->model(stretch.device_);
    memory_ = model.parameter_memory();
    capacities_ = model.capacities();
    for (size_t s = 0; s < shards_.size(); ++s) {
      sum_ += shards_[s]->beside;
      const std::optional<ShardDemand>& streamed = shards_[s]->streamed;
      if (!streamed) continue;
      const double saved = shards_[s]->beside.amounts[memory_] - streamed->amounts[memory_];
      // Streamed weights demand no less of anything else.
      if (saved > 0) layers_.push_back({s, saved, streamed->seconds - shards_[s]->beside.seconds});
    }
    std::ranges::stable_sort(layers_, [](const Layer& a, const Layer& b) { return a.saved * b.seconds > b.saved * a.seconds; });
    room_ = capacities_[memory_].amount * stretch.storage_.share - (stretch.storage_.parameters ? sum_.parameters : 0);
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (model.holds_parameters(i)) counts_.push_back(count_of(i));
  }

  std::optional<Way> run() {
    consider();
    visit(0);
    return std::move(best_);
  }

 private:
  struct Layer {
    size_t shard = 0;
    double saved = 0;    // of the memory for parameters
    double seconds = 0;  // of the board's own memory
  };

  // One way to count the memory that streamed weights leave room in.
  struct Count {
    size_t resource = 0;
    double room = 0;
    std::vector<double> saved;  // by layer
    std::vector<size_t> order;  // of the layers, those first that free most for their seconds
  };

  Count count_of(size_t resource) const {
    Count count{resource, resource == memory_ ? room_ : capacities_[resource].amount, {}, {}};
    for (size_t l = 0; l < layers_.size(); ++l) {
      const ShardLoad& shard = *shards_[layers_[l].shard];
      count.saved.push_back(shard.beside.amounts[resource] - shard.streamed->amounts[resource]);
      if (count.saved.back() > 0) count.order.push_back(l);
    }
    std::ranges::stable_sort(count.order,
                             [&](size_t a, size_t b) { return count.saved[a] * layers_[b].seconds > count.saved[b] * layers_[a].seconds; });
    return count;
  }

  bool fits_room() const {
    return std::ranges::all_of(counts_, [&](const Count& count) { return sum_.amounts[count.resource] <= count.room * (1 + kRounding); });
  }
  bool done() const { return wish_ == Wish::kAny && best_; }

  void consider() {
    if (!fits_room()) return;
    ShardDemand sum;
    for (size_t s = 0; s < shards_.size(); ++s) sum += streams_[s] ? *shards_[s]->streamed : shards_[s]->beside;
    if (!stretch_->within(sum)) return;
    const auto rank = [&](const ShardDemand& demand) {
      return wish_ == Wish::kLeastRoom ? std::pair(demand.amounts[memory_], demand.seconds)
                                       : std::pair(demand.seconds, demand.amounts[memory_]);
    };
    if (!best_ || rank(sum) < rank(best_->sum)) best_ = Way{sum, streams_};
  }

  // Of the layers from one on at best, the last in part: the seconds that free the room that is missing, infinite where they cannot.
  double fewest_seconds(size_t from, const Count& count) const {
    double seconds = 0, missing = sum_.amounts[count.resource] - count.room * (1 + kRounding);
    for (size_t at = 0; missing > 0 && at < count.order.size(); ++at) {
      const size_t layer = count.order[at];
      if (layer < from) continue;
      if (count.saved[layer] >= missing) return seconds + layers_[layer].seconds * missing / count.saved[layer];
      seconds += layers_[layer].seconds;
      missing -= count.saved[layer];
    }
    return missing > 0 ? std::numeric_limits<double>::infinity() : seconds;
  }
  // Likewise the room that they free in so many seconds.
  double most_room(size_t from, double seconds) const {
    double room = 0;
    for (; from < layers_.size(); ++from) {
      if (layers_[from].seconds > seconds) return room + layers_[from].saved * std::max(seconds, 0.0) / layers_[from].seconds;
      room += layers_[from].saved;
      seconds -= layers_[from].seconds;
    }
    return room;
  }

  bool hopeless(size_t from) const {
    const double period = stretch_->period_ * (1 + kRounding);
    double seconds = sum_.seconds;
    for (const Count& count : counts_) seconds = std::max(seconds, sum_.seconds + fewest_seconds(from, count));
    if (seconds > period) return true;
    if (!best_) return false;
    if (wish_ == Wish::kFewestSeconds) return seconds >= best_->sum.seconds;
    return sum_.amounts[memory_] - most_room(from, period - sum_.seconds) >= best_->sum.amounts[memory_];
  }

  bool overruns() const {
    if (sum_.seconds > stretch_->period_ * (1 + kRounding)) return true;
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (!stretch_->segments_->model(stretch_->device_).holds_parameters(i) && sum_.amounts[i] > capacities_[i].amount * (1 + kRounding))
        return true;
    return false;
  }

  void visit(size_t from) {
    // More that is streamed frees room alone.
    if (done() || from == layers_.size() || (wish_ != Wish::kLeastRoom && fits_room() && best_) || hopeless(from)) return;
    const Layer& layer = layers_[from];
    const ShardLoad& shard = *shards_[layer.shard];
    const ShardDemand before = sum_;
    sum_.seconds += layer.seconds;
    for (size_t i = 0; i < capacities_.size(); ++i) sum_.amounts[i] += shard.streamed->amounts[i] - shard.beside.amounts[i];
    if (!overruns()) {
      streams_[layer.shard] = true;
      consider();
      visit(from + 1);
      streams_[layer.shard] = false;
    }
    sum_ = before;
    visit(from + 1);
  }

  const StretchLoad* stretch_;
  std::vector<const ShardLoad*> shards_;
  Wish wish_;
  size_t memory_ = 0;
  std::span<const NamedAmount> capacities_;
  double room_ = 0;
  std::vector<Layer> layers_;  // that may stream, those first that free most for their seconds
  std::vector<Count> counts_;
  ShardDemand sum_;
  std::vector<bool> streams_;
  std::optional<Way> best_;
};

void StretchLoad::add(const ShardLoad& shard) {
  beside_ += shard.beside;
  streaming_ += shard.may_stream ? 1 : 0;
  shards_.push_back(shard);
}

void StretchLoad::ask_streamed(ShardLoad& shard) const {
  if (shard.may_stream && !shard.streamed) shard.streamed = segments_->streamed_demand(device_, shard, period_);
}

std::optional<StretchLoad::Way> StretchLoad::best(Wish wish, ShardLoad* more) {
  std::vector<const ShardLoad*> all;
  for (ShardLoad& shard : shards_) {
    ask_streamed(shard);
    all.push_back(&shard);
  }
  if (more != nullptr) {
    ask_streamed(*more);
    all.push_back(more);
  }
  return Search(*this, std::move(all), wish).run();
}

bool StretchLoad::fits_with(ShardLoad& shard) {
  ShardDemand sum = sum_of(beside_, shard.beside);
  if (within(sum)) return true;
  if (!may_stream() && !shard.may_stream) return false;
  // Streamed weights leave room in the memory alone.
  for (size_t i = 0; i < sum.amounts.size(); ++i)
    if (segments_->model(device_).holds_parameters(i)) sum.amounts[i] = 0;
  return within(sum) && best(Wish::kAny, &shard).has_value();
}

std::optional<ShardDemand> StretchLoad::smallest(ShardLoad* more) {
  if (!may_stream() && (more == nullptr || !more->may_stream)) {
    const ShardDemand sum = more == nullptr ? beside_ : sum_of(beside_, more->beside);
    return within(sum) ? std::optional(sum) : std::nullopt;
  }
  const std::optional<Way> way = best(Wish::kLeastRoom, more);
  return way ? std::optional(way->sum) : std::nullopt;
}

std::optional<std::vector<int64_t>> StretchLoad::streamed(bool least_room) {
  if (!least_room && within(beside_)) return std::vector<int64_t>();
  const std::optional<Way> way = best(least_room ? Wish::kLeastRoom : Wish::kFewestSeconds);
  if (!way) return std::nullopt;
  std::vector<int64_t> groups;
  for (size_t s = 0; s < shards_.size(); ++s)
    if (way->streams[s]) groups.push_back(shards_[s].group);
  std::ranges::sort(groups);
  return groups;
}

}  // namespace millrace
