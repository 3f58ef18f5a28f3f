#include "partitioner/hybrid/option_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
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

bool takes_no_less(const Amounts& one, const Amounts& other) {
  for (size_t k = 0; k < one.size(); ++k)
    if (one[k] < other[k]) return false;
  return true;
}

// A sum over the first layers, and how it came about.
struct Sum {
  Amounts amounts;
  double cost = 0;
  size_t before = 0, option = 0;
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
      for (size_t k = 0; k < resources; ++k) taken[k] += best->amounts[k];
    }
    if (cost > kWithin) return answer;
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

  std::vector<std::vector<Sum>> sums{{Sum{Amounts(resources, 0), 0, 0, 0}}};
  bool left_out = false;
  for (size_t at = 0; at < layers.size(); ++at) {
    std::vector<Sum> next;
    for (size_t before = 0; before < sums.back().size(); ++before) {
      const Sum& sum = sums.back()[before];
      for (const Option& option : layers[order[at]]) {
        Sum more{sum.amounts, 0, before, option.place};
        bool fits = true;
        for (size_t k = 0; k < resources; ++k) fits = (more.amounts[k] += option.amounts[k]) + least[at + 1][k] <= kWithin && fits;
        for (size_t p = 0; p < kept.size() && fits; ++p) {
          more.cost = cost_of(more.amounts, kept[p].second);
          fits = more.cost + least[at + 1][resources + p] <= kWithin;
        }
        if (fits) next.push_back(std::move(more));
      }
    }
    std::ranges::stable_sort(next, {}, &Sum::cost);
    std::vector<Sum> fewest;
    for (Sum& sum : next) {
      if (fewest.size() == most_sums) {
        left_out = true;
        break;
      }
      if (std::ranges::none_of(fewest, [&](const Sum& known) { return takes_no_less(sum.amounts, known.amounts); }))
        fewest.push_back(std::move(sum));
    }
    sums.push_back(std::move(fewest));
    if (sums.back().empty()) break;
  }
  if (sums.back().empty()) {
    if (left_out) answer.verdict = OptionAnswer::Verdict::kUndecided;
    return answer;
  }
  answer.verdict = OptionAnswer::Verdict::kFound;
  answer.chosen.resize(layers.size());
  for (size_t at = layers.size(), place = 0; at-- > 0;) {
    const Sum& sum = sums[at + 1][place];
    answer.chosen[order[at]] = sum.option;
    place = sum.before;
  }
  return answer;
}

}  // namespace millrace
