#include "partitioner/hybrid/stretch_load.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <ranges>
#include <span>
#include <utility>

#include "partitioner/hybrid/option_sums.h"

namespace millrace {
namespace {

ShardDemand sum_of(ShardDemand sum, const ShardDemand& part) { return sum += part; }

constexpr double kRounding = 1e-12;  // sums in another order

}  // namespace

// Which of the shards to hold in another way. The sums that bound are in the order of the search; what is answered is added up in the
// shards' own.
class StretchLoad::Search {
 public:
  Search(const StretchLoad& stretch, std::vector<const ShardLoad*> shards, Wish wish, bool with_larger)
      : stretch_(&stretch),
        model_(&stretch.segments_->model(stretch.device_)),
        shards_(std::move(shards)),
        wish_(wish),
        capacities_(model_->capacities()),
        turned_(shards_.size(), nullptr),
        counts_in_many_ways_(
            std::ranges::any_of(std::views::iota(size_t{0}, capacities_.size()),
                                [this](size_t i) { return i != model_->parameter_memory() && model_->holds_parameters(i); })),
        most_steps_(wish == Wish::kFewestSeconds ? most_steps_of_best() : kMostSteps) {
    const size_t memory = model_->parameter_memory();
    for (const ShardLoad* shard : shards_) sum_ += shard->beside;
    room_ = capacities_[memory].amount * stretch.storage_.share - (stretch.storage_.parameters ? sum_.parameters : 0);
    memory_ = memory;
    before_ = sum_;
    set_costs(with_larger);
    for (const ShardLoad* shard : shards_) most_fewer_ += fewer_seconds_of(*shard, with_larger);
    size_t most_others = 0;
    for (const ShardLoad* shard : shards_) most_others += shard->ways->streamed->size() + (with_larger ? shard->ways->larger->size() : 0);
    others_.reserve(most_others);
    more_.reserve(most_others);
    layers_.reserve(shards_.size());
    for (size_t s = 0; s < shards_.size(); ++s) add_layer(s, with_larger);
    if (lacks_room()) return;
    std::ranges::stable_sort(layers_, [](const Layer& a, const Layer& b) { return a.saved * b.cost > b.saved * a.cost; });
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (model_->holds_parameters(i)) add_counts(i);
    fewer_.assign(layers_.size() + 1, 0);
    for (size_t l = layers_.size(); l-- > 0;) fewer_[l] = fewer_[l + 1] + fewer_seconds(layers_[l]);
  }

  std::optional<Way> run() {
    if (fewer_.empty()) return std::nullopt;  // whatever the layers do
    consider();
    if (!done() && costs_.size() > 1 && !hopeless(0)) {
      for (size_t c = 0; c < counts_.size() && !done(); ++c) take_in_order(counts_[c]);
      if (!done()) {
        if (!add_tightest()) return std::nullopt;
        take_in_order(counts_.back());
      }
    }
    visit(0);
    if (!best_ && ran_out()) {
      add_up();
      if (wish_ == Wish::kLeastRoom && (best_ || !decided_)) {
        steps_ = 0;
        most_steps_ = most_steps_of_best();
        visit(0);
      }
    }
    return std::move(best_);
  }
  // What none takes less of the memory than, without looking for a way.
  std::optional<ShardDemand> least_of_all() {
    if (fewer_.empty() || (costs_.size() > 1 && !add_tightest()) || hopeless(0)) return std::nullopt;
    ShardDemand least = sum_;
    least.amounts[memory_] -= most_room(0);
    return least;
  }
  // Without having looked at all there is.
  bool gave_up() const { return !decided_ && ran_out(); }

 private:
  using Other = ShardLoad::Other;
  // Of whether there is a way, which is asked tens of thousands of times, and of which is the best.
  static constexpr int64_t kMostSteps = 400;
  static constexpr int64_t kMostStepsOfBest = 50'000;
  // Of memory that is counted in many ways, where each takes longer.
  static constexpr int64_t kMostStepsOfMany = 12'000;
  // Where steps did not do; and of memory that is counted in many ways, of which a sum takes long, and more do not undercut each other.
  static constexpr size_t kMostSums = 1500, kMostSumsOfMany = 150;

  int64_t most_steps_of_best() const { return counts_in_many_ways_ ? kMostStepsOfMany : kMostStepsOfBest; }
  bool ran_out() const { return steps_ > (wish_ != Wish::kAny && best_ ? most_steps_of_best() : most_steps_); }

  // A shard that may be held in other ways.
  struct Layer {
    size_t shard = 0;
    double saved = 0, cost = 0;  // where it frees the most for what it costs
    size_t first_other = 0;
    std::span<const Other* const> others;  // of others_
  };
  // Of another way, than with the smallest engine beside the weights.
  struct More {
    double seconds = 0, engines = 0;
  };
  // What room costs: seconds of the board's own memory, multipliers, or both, each as a part of what there is.
  struct Cost {
    double per_second = 0, per_engine = 0, budget = 0;
    size_t engines = 0;  // the resource
    double of(const ShardDemand& more, const ShardDemand& less) const {
      return of({more.seconds - less.seconds, more.amounts[engines] - less.amounts[engines]});
    }
    double of(const More& more) const {
      double cost = per_second * more.seconds;
      if (per_engine > 0) cost += per_engine * more.engines;
      return std::max(cost, 0.0);
    }
  };
  // One way to count the memory that is short, and what room in it costs: in the order of the search, what frees the most for its cost
  // first.
  struct Count {
    struct Part {
      size_t layer;
      const Other* other;
      double saved, cost;
    };
    size_t resource = 0;
    double room = 0;
    const Cost* cost = nullptr;
    std::vector<Part> parts;
  };

  void set_costs(bool with_larger) {
    const double seconds = stretch_->most_seconds_ - sum_.seconds;
    costs_.reserve(kMostCosts);
    costs_.push_back({1, 0, seconds, 0});
    if (!with_larger) return;
    // The resource of which larger engines take the greatest part.
    size_t engines = 0;
    double greatest = -1;
    for (size_t i = 0; i < capacities_.size(); ++i) {
      if (model_->holds_parameters(i)) continue;
      double taken = 0;
      for (const ShardLoad* shard : shards_)
        for (const Other& other : *shard->ways->larger) taken += other.demand.amounts[i] - shard->beside.amounts[i];
      const double part = taken / std::max(capacities_[i].amount - sum_.amounts[i], kLittle);
      if (part > greatest) {
        greatest = part;
        engines = i;
      }
    }
    const double left = std::max(capacities_[engines].amount - sum_.amounts[engines], kLittle);
    costs_.push_back({0, 1 / left, 1, engines});
    costs_.push_back({0.5 / std::max(seconds, kLittle), 0.5 / left, 1, engines});
  }

  // What seconds and engines together cost, weighed so that room is as dear as can be: that rules out the most. False where some weights
  // rule out every way.
  bool add_tightest() {
    const Cost seconds = costs_[0], engines = costs_[1];
    const double per_second = 1 / std::max(seconds.budget, kLittle);
    const auto cost_at = [&](double share) { return Cost{share * per_second, (1 - share) * engines.per_engine, 1, engines.engines}; };
    const auto least_at = [&](double share) {
      const Cost cost = cost_at(share);
      return least_cost(0, count_of(memory_, cost));
    };
    double low = 0, high = 1;
    for (int step = 0; step < 6; ++step) {
      const double third = (high - low) / 3;
      const double below = least_at(low + third), above = least_at(high - third);
      if (std::max(below, above) > 1 + kSlack) return false;
      if (below < above) {
        low += third;
      } else {
        high -= third;
      }
    }
    costs_.push_back(cost_at((low + high) / 2));
    counts_.push_back(count_of(memory_, costs_.back()));
    return true;
  }

  // What frees the most for its cost, one after the other, as far as there is what it costs.
  void take_in_order(const Count& count) {
    std::vector<bool> stuck(layers_.size(), false);
    for (const Count::Part& part : count.parts) {
      if (fits_room()) break;
      if (stuck[part.layer]) continue;
      const Layer& layer = layers_[part.layer];
      const ShardDemand before = sum_;
      const Other*& turned = turned_[layer.shard];
      turn(turned != nullptr ? turned->demand : shards_[layer.shard]->beside, part.other->demand);
      if (overruns(0)) {
        sum_ = before;
        stuck[part.layer] = true;
      } else {
        turned = part.other;
      }
    }
    consider();
    std::ranges::fill(turned_, nullptr);
    sum_ = before_;
  }

  void turn(const ShardDemand& from, const ShardDemand& to) {
    sum_.seconds += to.seconds - from.seconds;
    for (size_t i = 0; i < capacities_.size(); ++i) sum_.amounts[i] += to.amounts[i] - from.amounts[i];
  }

  // Whatever the others do: their ways take no less of anything but memory, and so many seconds less at most.
  bool overruns_alone(const ShardDemand& from, const ShardDemand& to) const {
    if (before_.seconds + (to.seconds - from.seconds) - most_fewer_ > stretch_->most_seconds_ * (1 + kRounding)) return true;
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (!model_->holds_parameters(i) && before_.amounts[i] + (to.amounts[i] - from.amounts[i]) > capacities_[i].amount * (1 + kRounding))
        return true;
    return false;
  }

  // Than with the smallest engine beside the weights, where that reads words from outside, too.
  double fewer_seconds(const Layer& layer) const {
    double fewer = 0;
    for (const Other* other : layer.others) fewer = std::max(fewer, shards_[layer.shard]->beside.seconds - other->demand.seconds);
    return fewer;
  }
  static double fewer_seconds_of(const ShardLoad& shard, bool with_larger) {
    double fewer = 0;
    for (const Other& other : *shard.ways->streamed) fewer = std::max(fewer, shard.beside.seconds - other.demand.seconds);
    if (with_larger)
      for (const Other& other : *shard.ways->larger) fewer = std::max(fewer, shard.beside.seconds - other.demand.seconds);
    return fewer;
  }

  void add_layer(size_t s, bool with_larger) {
    const ShardLoad& shard = *shards_[s];
    Layer layer{.shard = s, .others = {}};
    const size_t first = others_.size();
    const Cost& cost = costs_.back();
    const size_t engines = cost.engines;
    const auto add = [&](const Other& other) {
      if (wish_ == Wish::kAny && overruns_alone(shard.beside, other.demand)) return;
      const double saved = saved_by(other.demand, shard.beside);
      if (saved <= 0 && (wish_ == Wish::kLeastRoom || other.demand.seconds >= shard.beside.seconds)) return;
      const double costs = cost.of(other.demand, shard.beside);
      if (saved > 0 && (layer.saved == 0 || saved * layer.cost > layer.saved * costs)) {
        layer.saved = saved;
        layer.cost = costs;
      }
      others_.push_back(&other);
      more_.push_back({other.demand.seconds - shard.beside.seconds, other.demand.amounts[engines] - shard.beside.amounts[engines]});
    };
    for (const Other& other : *shard.ways->streamed) add(other);
    if (with_larger)
      for (const Other& other : *shard.ways->larger) add(other);
    layer.first_other = first;
    layer.others = std::span<const Other* const>(others_).subspan(first);
    if (!layer.others.empty()) layers_.push_back(layer);
  }

  // Of the memory, or of another way to count it, where a larger part of that is saved.
  double saved_by(const ShardDemand& way, const ShardDemand& beside) const {
    double most = beside.amounts[memory_] - way.amounts[memory_];
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (i != memory_ && model_->holds_parameters(i))
        most = std::max(most, (beside.amounts[i] - way.amounts[i]) * capacities_[memory_].amount / capacities_[i].amount);
    return most;
  }

  double room_of(size_t resource) const { return resource == memory_ ? room_ : capacities_[resource].amount; }

  // Though every layer frees as much as it can.
  bool lacks_room() const {
    for (size_t i = 0; i < capacities_.size(); ++i) {
      if (!model_->holds_parameters(i)) continue;
      double missing = sum_.amounts[i] - room_of(i) * (1 + kRounding);
      for (const Layer& layer : layers_) {
        double most = 0;
        for (const Other* other : layer.others) most = std::max(most, shards_[layer.shard]->beside.amounts[i] - other->demand.amounts[i]);
        missing -= most;
      }
      if (missing > kRounding * sum_.amounts[i]) return true;
    }
    return false;
  }

  void add_counts(size_t resource) {
    counts_.reserve(counts_.size() + kMostCosts);
    for (const Cost& cost : costs_) counts_.push_back(count_of(resource, cost));
  }

  Count count_of(size_t resource, const Cost& cost) const {
    Count count{resource, room_of(resource), &cost, {}};
    count.parts.reserve(others_.size());
    for (size_t l = 0; l < layers_.size(); ++l) add_parts(l, count);
    std::ranges::stable_sort(count.parts, [](const Count::Part& a, const Count::Part& b) { return a.saved * b.cost > b.saved * a.cost; });
    return count;
  }

  // Of one layer: from way to way, each freeing more, at a cost that never falls.
  void add_parts(size_t l, Count& count) const {
    const Layer& layer = layers_[l];
    const double beside = shards_[layer.shard]->beside.amounts[count.resource];
    double saved = 0, cost = 0;
    while (true) {
      double most = 0, for_it = 0;
      const Other* best = nullptr;
      for (size_t i = 0; i < layer.others.size(); ++i) {
        const double more = beside - layer.others[i]->demand.amounts[count.resource] - saved;
        if (more <= 0) continue;
        const double costs = std::max(count.cost->of(more_[layer.first_other + i]) - cost, 0.0);
        const double better = more * for_it - most * costs;
        if (most == 0 || better > 0 || (better == 0 && more > most)) {
          most = more;
          for_it = costs;
          best = layer.others[i];
        }
      }
      if (most == 0) return;
      count.parts.push_back({l, best, most, for_it});
      saved += most;
      cost += for_it;
    }
  }

  bool fits_room() const {
    return std::ranges::all_of(counts_, [&](const Count& count) { return sum_.amounts[count.resource] <= count.room * (1 + kRounding); });
  }
  bool done() const { return (wish_ == Wish::kAny && best_) || ran_out(); }

  // Where the steps have run out.
  void add_up() {
    std::vector<double> limits{stretch_->most_seconds_ * (1 + kRounding)};
    for (size_t i = 0; i < capacities_.size(); ++i) limits.push_back(room_of(i) * (1 + kRounding));
    const auto amounts_of = [&](const ShardDemand& demand) {
      std::vector<double> amounts{demand.seconds};
      amounts.insert(amounts.end(), demand.amounts.begin(), demand.amounts.begin() + static_cast<std::ptrdiff_t>(capacities_.size()));
      amounts[1] -= demand.shared;  // which one shard of them takes at least
      return amounts;
    };
    OptionSums sums(std::move(limits));
    std::vector<bool> chooses(shards_.size(), false);
    for (const Layer& layer : layers_) {
      std::vector<std::vector<double>> options{amounts_of(shards_[layer.shard]->beside)};
      for (const Other* other : layer.others) options.push_back(amounts_of(other->demand));
      sums.add_layer(options);
      chooses[layer.shard] = true;
    }
    for (size_t s = 0; s < shards_.size(); ++s)
      if (!chooses[s]) sums.add_layer({amounts_of(shards_[s]->beside)});
    const OptionAnswer answer = sums.choose(counts_in_many_ways_ ? kMostSumsOfMany : kMostSums);
    decided_ = answer.verdict == OptionAnswer::Verdict::kNone;
    if (answer.verdict != OptionAnswer::Verdict::kFound) return;
    for (size_t l = 0; l < layers_.size(); ++l)
      if (const size_t chosen = answer.chosen[l]; chosen > 0) turned_[layers_[l].shard] = layers_[l].others[chosen - 1];
    sum_ = ShardDemand{};
    for (size_t s = 0; s < shards_.size(); ++s) sum_ += turned_[s] != nullptr ? turned_[s]->demand : shards_[s]->beside;
    consider();
    decided_ = best_.has_value();
  }

  void consider() {
    if (!fits_room()) return;
    ShardDemand sum;
    for (size_t s = 0; s < shards_.size(); ++s) sum += turned_[s] != nullptr ? turned_[s]->demand : shards_[s]->beside;
    if (!stretch_->within(sum)) return;
    const auto rank = [&](const ShardDemand& demand) {
      return wish_ == Wish::kLeastRoom ? std::pair(demand.amounts[memory_], demand.seconds)
                                       : std::pair(demand.seconds, demand.amounts[memory_]);
    };
    if (best_ && rank(sum) >= rank(best_->sum)) return;
    best_ = Way{sum, {}};
    for (const Other* other : turned_)
      if (other != nullptr) best_->ways.push_back(other->way);
  }

  // Of the layers from one on at best, the last in part: the cost of the room that is missing, infinite where they cannot free it.
  double least_cost(size_t from, const Count& count) const {
    double cost = 0, missing = sum_.amounts[count.resource] - count.room * (1 + kRounding);
    for (size_t at = 0; missing > 0 && at < count.parts.size(); ++at) {
      const Count::Part& part = count.parts[at];
      if (part.layer < from) continue;
      if (part.saved >= missing) return cost + part.cost * missing / part.saved;
      cost += part.cost;
      missing -= part.saved;
    }
    return missing > 0 ? std::numeric_limits<double>::infinity() : cost;
  }
  // Likewise the room that they free for what is left of seconds and engines.
  double most_room(size_t from) const {
    double most = std::numeric_limits<double>::infinity();
    for (const Count& count : counts_) {
      if (count.resource != memory_) continue;
      double left = count.cost->budget * (1 + kSlack) - count.cost->of(sum_, before_) + count.cost->per_second * fewer_[from];
      double room = 0;
      for (const Count::Part& part : count.parts) {
        if (part.layer < from) continue;
        if (part.cost > left) {
          room += part.saved * std::max(left, 0.0) / part.cost;
          break;
        }
        room += part.saved;
        left -= part.cost;
      }
      most = std::min(most, room);
    }
    return most;
  }

  bool hopeless(size_t from) const {
    const double period = stretch_->most_seconds_ * (1 + kRounding);
    double seconds = sum_.seconds;
    // The tightest first.
    for (const Count& count : std::views::reverse(counts_)) {
      const double least = least_cost(from, count);
      if (count.cost == costs_.data()) {
        seconds = std::max(seconds, sum_.seconds + least);
      } else if (count.cost->of(sum_, before_) + least > count.cost->budget * (1 + kSlack)) {
        return true;
      }
    }
    seconds -= fewer_[from];
    if (seconds > period) return true;
    if (!best_) return false;
    if (wish_ == Wish::kFewestSeconds) return seconds >= best_->sum.seconds;
    return sum_.amounts[memory_] - most_room(from) > best_->sum.amounts[memory_];
  }

  bool overruns(size_t from) const {
    if (sum_.seconds - fewer_[from] > stretch_->most_seconds_ * (1 + kRounding)) return true;
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (!model_->holds_parameters(i) && sum_.amounts[i] > capacities_[i].amount * (1 + kRounding)) return true;
    return false;
  }

  void visit(size_t from) {
    // More that is turned frees room alone.
    if (done() || from == layers_.size() || hopeless(from)) return;
    if (wish_ != Wish::kLeastRoom && fewer_[from] == 0 && fits_room() && best_) return;
    ++steps_;
    const Layer& layer = layers_[from];
    const ShardLoad& shard = *shards_[layer.shard];
    const ShardDemand before = sum_;
    for (const Other* other : layer.others) {
      turn(shard.beside, other->demand);
      if (!overruns(from + 1)) {
        turned_[layer.shard] = other;
        consider();
        visit(from + 1);
        turned_[layer.shard] = nullptr;
      }
      sum_ = before;
    }
    visit(from + 1);
  }

  static constexpr double kLittle = 1e-30;
  static constexpr double kSlack = 1e-9;  // costs are parts of differences

  const StretchLoad* stretch_;
  const CostModel* model_;
  std::vector<const ShardLoad*> shards_;
  Wish wish_;
  size_t memory_ = 0;
  std::span<const NamedAmount> capacities_;
  double room_ = 0;
  static constexpr size_t kMostCosts = 4;
  std::vector<Cost> costs_;           // seconds first; they stay where they are
  std::vector<const Other*> others_;  // of all layers, one after the other; they stay where they are
  std::vector<More> more_;            // likewise, of the engines that the last of the costs counts
  std::vector<Layer> layers_;         // those first that free most for what it costs
  std::vector<Count> counts_;
  std::vector<double> fewer_;  // seconds, of the layers from one on at most
  double most_fewer_ = 0;      // of all shards, at most
  ShardDemand sum_, before_;
  std::vector<const Other*> turned_;  // by shard
  bool counts_in_many_ways_;
  int64_t steps_ = 0, most_steps_;  // as long as no way is known
  bool decided_ = false;            // though the steps have run out
  std::optional<Way> best_;
};

void StretchLoad::add(const ShardLoad& shard) {
  beside_ += shard.beside;
  streaming_ += shard.may_stream ? 1 : 0;
  shards_.push_back(shard);
}

void StretchLoad::ask(ShardLoad& shard, bool larger) const {
  if (!shard.ways) shard.ways = std::make_shared<ShardLoad::Ways>();
  if (!shard.ways->streamed) {
    std::vector<ShardLoad::Other>& streamed = shard.ways->streamed.emplace();
    if (shard.may_stream) streamed.push_back({{shard.group, true}, segments_->streamed_demand(device_, shard, period_)});
  }
  if (larger && !shard.ways->larger) shard.ways->larger = segments_->larger_engines(device_, shard, period_);
}

bool StretchLoad::has_choice(const ShardLoad* more) const {
  return may_stream() || (more != nullptr && more->may_stream) || segments_->enlarges(device_);
}

std::optional<StretchLoad::Way> StretchLoad::best(Wish wish, ShardLoad* more) {
  for (const bool larger : {false, true}) {
    if (larger && !segments_->enlarges(device_)) break;
    if (std::optional<Way> way = best(wish, larger, more)) return way;
  }
  return std::nullopt;
}

std::vector<const ShardLoad*> StretchLoad::ask_all(bool larger, ShardLoad* more) {
  std::vector<const ShardLoad*> all;
  all.reserve(shards_.size() + 1);
  for (ShardLoad& shard : shards_) {
    ask(shard, larger);
    all.push_back(&shard);
  }
  if (more != nullptr) {
    ask(*more, larger);
    all.push_back(more);
  }
  return all;
}

std::optional<StretchLoad::Way> StretchLoad::best(Wish wish, bool larger, ShardLoad* more) {
  Search search(*this, ask_all(larger, more), wish, larger);
  std::optional<Way> way = search.run();
  gave_up_ = search.gave_up();
  if (way) std::ranges::sort(way->ways, {}, &ShardWay::group);
  return way;
}

bool StretchLoad::fits_with(ShardLoad& shard) {
  ShardDemand sum = sum_of(beside_, shard.beside);
  if (within(sum)) return true;
  if (!has_choice(&shard)) return false;
  // Streamed weights and larger engines leave room in the memory alone.
  for (size_t i = 0; i < sum.amounts.size(); ++i)
    if (segments_->model(device_).holds_parameters(i)) sum.amounts[i] = 0;
  if (segments_->counts_built()) sum.seconds = 0;
  if (!within(sum)) return false;
  if (best(Wish::kAny, &shard)) return true;
  if (gave_up_) segments_->note_undecided();
  return gave_up_ && storage_.undecided_fits;
}

std::optional<ShardDemand> StretchLoad::smallest(ShardLoad* more) {
  if (!has_choice(more)) {
    const ShardDemand sum = more == nullptr ? beside_ : sum_of(beside_, more->beside);
    return within(sum) ? std::optional(sum) : std::nullopt;
  }
  const std::optional<Way> way = best(Wish::kLeastRoom, more);
  return way ? std::optional(way->sum) : std::nullopt;
}

std::optional<ShardDemand> StretchLoad::least_of_all(ShardLoad* more) {
  if (!has_choice(more)) return smallest(more);
  const bool larger = segments_->enlarges(device_);
  return Search(*this, ask_all(larger, more), Wish::kFewestSeconds, larger).least_of_all();
}

std::optional<ShardWays> StretchLoad::ways(bool least_room) {
  if (!least_room && within(beside_)) return ShardWays();
  std::optional<Way> way = best(least_room ? Wish::kLeastRoom : Wish::kFewestSeconds);
  if (!way) return std::nullopt;
  return std::move(way->ways);
}

std::optional<ShardWays> StretchLoad::fastest() {
  std::optional<Way> way = best(Wish::kFewestSeconds, true, nullptr);
  return way ? std::optional(std::move(way->ways)) : std::nullopt;
}

}  // namespace millrace
