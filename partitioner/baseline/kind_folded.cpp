#include "partitioner/baseline/kind_folded.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/drawing/quantity.h"
#include "core/plan/seats.h"

namespace millrace::by_kind {
namespace {

class FoldedSearch {
 public:
  FoldedSearch(const PlanTask& task, const std::vector<Unit>& units, KindCosts& costs, const KindTraffic& traffic)
      : task_(task),
        units_(units),
        costs_(costs),
        traffic_(traffic),
        devices_(task.models.size()),
        seats_(seats_of(task.cluster)),
        cables_(cables_of(task.cluster)) {}

  FoldedRing solve() {
    Folded at;
    at.seconds.assign(devices_, 0);
    at.amounts.assign(devices_, {});
    at.engines.assign(devices_, {});
    at.cables.assign(cables_.size(), 0);
    at.budgets.assign(cables_.size(), 0);
    try_places(0, 0, at);
    return best_;
  }

 private:
  // What the places so far take of each card, and of each cable's directions.
  struct Folded {
    std::vector<double> seconds, cables, budgets;
    std::vector<Amounts> amounts;
    std::vector<std::vector<Amounts>> engines;  // of a board: those that differ
    std::vector<Stretch> stretches;
  };
  static constexpr int64_t kMostTries = 2'000'000;

  double period_of(const Folded& at) const {
    double period = *std::ranges::max_element(at.seconds);
    for (const std::vector<double>* of : {&at.cables, &at.budgets})
      for (const double seconds : *of) period = std::max(period, seconds);
    return period;
  }

  void try_places(size_t device, size_t begin, const Folded& at) {
    if (++tried_ > kMostTries)
      fail(ErrorCode::kUsage,
           "more than {} ways to lay {} on {} places of two cards; give as many laps as the network has recurrent layers", kMostTries,
           task_.graph->model().name, devices_);
    if (device == devices_) {
      if (begin < units_.size() || period_of(at) >= best_.seconds) return;
      best_.seconds = period_of(at);
      best_.stretches = at.stretches;
      return;
    }
    const auto steps_left = std::count_if(units_.begin() + static_cast<std::ptrdiff_t>(begin), units_.end(),
                                          [](const Unit& unit) { return unit.part == Part::kSteps; });
    std::ptrdiff_t boards_left = 0;
    for (size_t d = device; d < devices_; ++d) boards_left += costs_.is_board(d) ? 1 : 0;
    if (boards_left > steps_left || units_.size() - begin < devices_ - device) return;
    // Of rings as fast the first that is found stays: what follows a layer is with the board's steps, unless it is faster elsewhere.
    const bool follows = costs_.is_board(device) && begin + 1 < units_.size() && units_[begin + 1].part == Part::kAfter;
    const auto place = [&](size_t end) {
      if (!costs_.may_have(device, begin, end) || (device + 1 == devices_ && end < units_.size())) return;
      if (device + 1 < devices_ && costs_.is_board(device + 1) && (end == units_.size() || units_[end].part != Part::kSteps)) return;
      Folded next = at;
      if (add_place(device, begin, end, next) && period_of(next) < best_.seconds) try_places(device + 1, end, next);
    };
    if (follows) place(begin + 2);
    for (size_t end = begin + 1; end <= units_.size(); ++end)
      if (!follows || end != begin + 2) place(end);
  }

  bool add_place(size_t device, size_t begin, size_t end, Folded& at) {
    const auto seat = to_size(seats_[device]);
    Amounts amounts{};
    const double seconds = costs_.segment_seconds(device, begin, end, amounts);
    if (seconds == kNever) return false;
    at.seconds[seat] += seconds;
    const std::span<const NamedAmount> capacities = task_.models[device]->capacities();
    if (costs_.is_board(device)) amounts = added_to_engines(capacities, amounts, at.engines[seat]);
    for (size_t i = 0; i < capacities.size(); ++i) {
      at.amounts[seat][i] += amounts[i];
      const double missing = at.amounts[seat][i] - capacities[i].amount;
      if (missing <= 0) continue;
      costs_.refuse(device, capacities[i].name, missing,
                    fmt::format("card {} ({}) would need {} {} for all its places, and has {}; name more cards, or a larger one",
                                task_.cluster.devices[device].seat, task_.cluster.devices[device].device, counted(at.amounts[seat][i]),
                                capacities[i].name, counted(capacities[i].amount)));
      return false;
    }
    if (device > 0) add_to_cables(device - 1, begin, at);
    at.stretches.push_back({device, begin, end, {}});
    return true;
  }
  // A board's engine serves all places that want one of its elements and memory; behind it lies what the place with the most layers there
  // takes. What they keep in the board's own memory is each place's. Gives what the card needs more.
  static Amounts added_to_engines(std::span<const NamedAmount> capacities, const Amounts& wanted, std::vector<Amounts>& engines) {
    const auto same = [&](const Amounts& engine) {
      for (size_t i = 0; i < capacities.size(); ++i)
        if ((capacities[i].name == "dsp" || capacities[i].name == "bram_bits") && engine[i] != wanted[i]) return false;
      return true;
    };
    auto engine = std::ranges::find_if(engines, same);
    if (engine == engines.end()) engine = engines.insert(engines.end(), Amounts{});
    Amounts more = wanted;
    for (size_t i = 0; i < capacities.size(); ++i) {
      if (capacities[i].name == "dram_bytes") continue;
      more[i] = std::max(0.0, wanted[i] - (*engine)[i]);
      (*engine)[i] = std::max((*engine)[i], wanted[i]);
    }
    return more;
  }

  void add_to_cables(size_t link, size_t cut, Folded& at) const {
    const LinkEntry& entry = task_.cluster.links[link];
    const auto& [forward, backward] = traffic_.bits(cut, costs_.lends(link, cut));
    const auto forth = to_size(cables_[2 * link]), back = to_size(cables_[2 * link + 1]);
    at.cables[forth] += forward / (1e9 * entry.forward_gbps);
    at.cables[back] += backward / (1e9 * entry.backward_gbps);
    // Both directions are of one cable, whose budget they share.
    if (entry.shared_gbps > 0) at.budgets[std::min(forth, back)] += (forward + backward) / (1e9 * entry.shared_gbps);
  }

  const PlanTask& task_;
  const std::vector<Unit>& units_;
  KindCosts& costs_;
  const KindTraffic& traffic_;
  size_t devices_;
  std::vector<int64_t> seats_, cables_;
  FoldedRing best_;
  int64_t tried_ = 0;
};

}  // namespace

FoldedRing best_folded_ring(const PlanTask& task, const std::vector<Unit>& units, KindCosts& costs, const KindTraffic& traffic) {
  return FoldedSearch(task, units, costs, traffic).solve();
}

}  // namespace millrace::by_kind
