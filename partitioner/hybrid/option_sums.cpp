#include "partitioner/hybrid/option_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

namespace millrace {
namespace {

constexpr double kWithin = 1 + 1e-9;  // of prices' sums
constexpr double kBeyond = 2;         // of a limit of nothing
constexpr int kPrices = 96;           // that are tried
constexpr size_t kPricesKept = 6;

using Amounts = std::vector<double>;

double cost_of(const Amounts& amounts, const Amounts& prices) {
  double cost = 0;
  for (size_t k = 0; k < prices.size(); ++k) cost += prices[k] * amounts[k];
  return cost;
}

bool takes_no_less(std::span<const double> one, std::span<const double> other) {
  for (size_t k = 0; k < one.size(); ++k)
    if (one[k] < other[k]) return false;
  return true;
}

// Sums over the first layers, and how they came about.
class Sums {
 public:
  explicit Sums(size_t resources) : resources_(resources) {}

  struct From {
    size_t before = 0, option = 0;
    double cost = 0;
  };

  size_t size() const { return from_.size(); }
  std::span<const double> amounts(size_t at) const { return std::span(amounts_).subspan(at * resources_, resources_); }
  const From& from(size_t at) const { return from_[at]; }
  void add(std::span<const double> amounts, const From& from) {
    amounts_.insert(amounts_.end(), amounts.begin(), amounts.end());
    from_.push_back(from);
  }

 private:
  size_t resources_;
  std::vector<double> amounts_;
  std::vector<From> from_;
};

// The same sums once more, as they are compared fastest: some at a time, resource by resource.
class ComparedSums {
 public:
  explicit ComparedSums(size_t resources) : resources_(resources) {}

  void add(std::span<const double> amounts) {
    const size_t at = size_ % kTogether, first = size_ / kTogether * resources_;
    if (at == 0) groups_.resize(groups_.size() + resources_, none());
    for (size_t k = 0; k < resources_; ++k) groups_[first + k].pairs[at / kInPair][at % kInPair] = amounts[k];
    ++size_;
  }
  // One that takes no more of anything.
  bool has_one_within(std::span<const double> amounts) const {
    if (resources_ == 0) return size_ > 0;
    for (size_t first = 0; first < groups_.size(); first += resources_) {
      std::array<AreWithin, kPairs> within = {~AreWithin{}, ~AreWithin{}, ~AreWithin{}, ~AreWithin{}};
      for (size_t k = 0; k < resources_; ++k)
        for (size_t i = 0; i < kPairs; ++i) within[i] &= groups_[first + k].pairs[i] <= amounts[k];
      const AreWithin some = (within[0] | within[1]) | (within[2] | within[3]);
      if ((some[0] | some[1]) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kInPair = 2, kPairs = 4, kTogether = kInPair * kPairs;
  typedef double Pair __attribute__((vector_size(16)));
  typedef int64_t AreWithin __attribute__((vector_size(16)));
  struct Group {
    std::array<Pair, kPairs> pairs;
  };
  static Group none() {
    constexpr double kMost = std::numeric_limits<double>::infinity();
    Group group;
    group.pairs.fill(Pair{kMost, kMost});
    return group;
  }

  size_t resources_, size_ = 0;
  std::vector<Group> groups_;
};

}  // namespace

void OptionSums::add_layer(const std::vector<std::vector<double>>& options) {
  Layer layer;
  for (size_t place = 0; place < options.size(); ++place) {
    Option option{place, options[place]};
    for (size_t k = 0; k < limits_.size(); ++k) {
      double& amount = option.amounts[k];
      amount = amount <= 0 ? 0 : limits_[k] > 0 ? amount / limits_[k] : kBeyond;
    }
    if (std::ranges::any_of(layer, [&](const Option& known) { return takes_no_less(option.amounts, known.amounts); })) continue;
    std::erase_if(layer, [&](const Option& known) { return takes_no_less(known.amounts, option.amounts); });
    layer.push_back(std::move(option));
  }
  layers_.push_back(std::move(layer));
}

OptionAnswer OptionSums::choose(size_t most_sums) const {
  OptionAnswer answer;
  std::vector<Layer> layers = layers_;
  // Of resources that may run short alone.
  std::vector<size_t> short_ones;
  for (size_t k = 0; k < limits_.size(); ++k) {
    double most = 0;
    for (const Layer& layer : layers) {
      double greatest = 0;
      for (const Option& option : layer) greatest = std::max(greatest, option.amounts[k]);
      most += greatest;
    }
    if (most > 1) short_ones.push_back(k);
  }
  const size_t resources = short_ones.size();
  for (Layer& layer : layers)
    for (Option& option : layer) {
      Amounts amounts;
      for (const size_t k : short_ones) amounts.push_back(option.amounts[k]);
      option.amounts = std::move(amounts);
    }

  // Prices that add up to one: options whose sums cost more than that take too much of something.
  std::vector<std::pair<double, Amounts>> kept;  // with what the cheapest options cost at them, the most last
  Amounts logarithms(resources, 0), prices(resources), taken(resources);
  for (int step = 0; step < kPrices && resources > 0; ++step) {
    double all = 0;
    for (size_t k = 0; k < resources; ++k) all += prices[k] = std::exp(logarithms[k]);
    for (double& price : prices) price /= all;
    std::ranges::fill(taken, 0);
    double cost = 0;
    std::vector<double> cheapest;
    std::vector<size_t> chosen;
    for (const Layer& layer : layers) {
      const Option* best = nullptr;
      double least = 0;
      for (const Option& option : layer)
        if (const double own = cost_of(option.amounts, prices); best == nullptr || own < least) {
          best = &option;
          least = own;
        }
      if (best == nullptr) return answer;
      cost += least;
      cheapest.push_back(least);
      chosen.push_back(best->place);
      for (size_t k = 0; k < resources; ++k) taken[k] += best->amounts[k];
    }
    if (cost > kWithin) return answer;
    if (std::ranges::all_of(taken, [](double part) { return part <= 1; })) return {OptionAnswer::Verdict::kFound, std::move(chosen)};
    for (size_t l = 0; l < layers.size(); ++l) {
      const double others = cost - cheapest[l];
      std::erase_if(layers[l], [&](const Option& option) { return others + cost_of(option.amounts, prices) > kWithin; });
    }
    if (kept.size() < kPricesKept || cost > kept.front().first) {
      if (kept.size() == kPricesKept) kept.erase(kept.begin());
      const auto place = std::ranges::lower_bound(kept, cost, {}, &std::pair<double, Amounts>::first);
      kept.insert(place, {cost, prices});
    }
    // Dearer what more is taken of than there is on average, in ever smaller steps.
    const double mean = std::accumulate(taken.begin(), taken.end(), 0.0) / static_cast<double>(resources);
    const double rate = 2 / std::sqrt(1.0 + step);
    for (size_t k = 0; k < resources; ++k) logarithms[k] += rate * (taken[k] - mean);
  }

  // Those with the fewest options first.
  std::vector<size_t> order(layers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t l) { return layers[l].size(); });
  // What the layers from one on take at least: of each resource, and at each of the prices.
  std::vector<Amounts> least(layers.size() + 1, Amounts(resources + kept.size(), 0));
  for (size_t at = layers.size(); at-- > 0;) {
    const Layer& layer = layers[order[at]];
    for (size_t i = 0; i < resources + kept.size(); ++i) {
      double fewest = layer.empty() ? 0 : kBeyond * static_cast<double>(layers.size());
      for (const Option& option : layer)
        fewest = std::min(fewest, i < resources ? option.amounts[i] : cost_of(option.amounts, kept[i - resources].second));
      least[at][i] = least[at + 1][i] + fewest;
    }
  }

  std::vector<Sums> sums(1, Sums(resources));
  sums.front().add(Amounts(resources, 0), {});
  bool left_out = false;
  Amounts more(resources);
  for (size_t at = 0; at < layers.size(); ++at) {
    Sums next(resources);
    for (size_t before = 0; before < sums.back().size(); ++before) {
      const std::span<const double> sum = sums.back().amounts(before);
      for (const Option& option : layers[order[at]]) {
        bool fits = true;
        for (size_t k = 0; k < resources; ++k) {
          more[k] = sum[k] + option.amounts[k];
          fits = more[k] + least[at + 1][k] <= kWithin && fits;
        }
        double cost = 0;
        for (size_t p = 0; p < kept.size() && fits; ++p) {
          cost = cost_of(more, kept[p].second);
          fits = cost + least[at + 1][resources + p] <= kWithin;
        }
        if (fits) next.add(more, {before, option.place, cost});
      }
    }
    std::vector<size_t> by_cost(next.size());
    std::iota(by_cost.begin(), by_cost.end(), size_t{0});
    std::ranges::stable_sort(by_cost, {}, [&](size_t sum) { return next.from(sum).cost; });
    Sums fewest(resources);
    ComparedSums compared(resources);
    for (const size_t sum : by_cost) {
      if (fewest.size() == most_sums) {
        left_out = true;
        break;
      }
      if (compared.has_one_within(next.amounts(sum))) continue;
      fewest.add(next.amounts(sum), next.from(sum));
      compared.add(next.amounts(sum));
    }
    sums.push_back(std::move(fewest));
    if (sums.back().size() == 0) break;
  }
  if (sums.back().size() == 0) {
    if (left_out) answer.verdict = OptionAnswer::Verdict::kUndecided;
    return answer;
  }
  answer.verdict = OptionAnswer::Verdict::kFound;
  answer.chosen.resize(layers.size());
  for (size_t at = layers.size(), place = 0; at-- > 0;) {
    const Sums::From& from = sums[at + 1].from(place);
    answer.chosen[order[at]] = from.option;
    place = from.before;
  }
  return answer;
}

}  // namespace millrace
