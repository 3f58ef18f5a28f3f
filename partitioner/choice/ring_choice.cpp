#include "partitioner/choice/ring_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/index.h"
#include "core/plan/seats.h"
#include "partitioner/choice/idle_devices.h"
#include "partitioner/choice/planner.h"
#include "partitioner/hybrid/hybrid_planner.h"
#include "partitioner/hybrid/places_to_try.h"

namespace millrace {
namespace {

// By how much it has to be faster that boards alone stay without work: what their updates take is nearly the same with one board more or
// less, and a plan takes them longer than one of GPUs.
constexpr double kWorthIdleBoards = 1e-3;
constexpr double kNearly = 1e-2;
// Samples a second: what cannot reach it is no plan.
constexpr double kAnyRate = 1e-9;
// Of what an update takes, on fewer boards where no parameters travel, beside the latency of the links that they are spared.
constexpr double kUpdateOfFewer = 0.95;
constexpr size_t kMostPlacesToFold = 33;  // sixteen laps: more ways to lay a network on fewer than anyone waits for
constexpr size_t kMostRowsOfBoards = 20;  // ways to take so many of each row, for strategy kind; of more, one row is shortened at a time
constexpr int kMostRounds = 16;           // of leaving devices out, each of which made the ring faster

// First and last of neighbouring devices of one kind.
std::vector<std::pair<size_t, size_t>> runs_of(const PlanTask& task, const Places& kept) {
  std::vector<std::pair<size_t, size_t>> runs;
  const auto kind = [&](size_t i) { return fast_item(task.models, kept[i]); };
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!runs.empty() && kind(runs.back().second) == kind(i)) {
      runs.back().second = i;
    } else {
      runs.emplace_back(i, i);
    }
  }
  return runs;
}

Places without_last(const Places& kept, const std::pair<size_t, size_t>& run, size_t count) {
  Places fewer = kept;
  const auto end = fewer.begin() + static_cast<std::ptrdiff_t>(run.second + 1);
  fewer.erase(end - static_cast<std::ptrdiff_t>(count), end);
  return fewer;
}

// One ring: with all its devices, or some of them left without work.
class RingChooser {
 public:
  // `to_compare`: rings that are no faster are planned to their end all the same.
  RingChooser(const PlanTask& task, bool to_compare) : task_(&task), kept_(task.models.size()), to_compare_(to_compare) {
    std::iota(kept_.begin(), kept_.end(), 0);
    const auto streams = [](const CostModel* model) { return model->dedicated_engines(); };
    some_stream_ = std::ranges::any_of(task.models, streams);
    all_stream_ = std::ranges::all_of(task.models, streams);
  }

  Outcome run(bool leave_empty) {
    const Places all = kept_;
    PlanTask whole = *task_;
    if (leave_empty && all_stream_ && whole.options.strategy == Strategy::kHybrid && all.size() >= 2 && all.size() <= kLongestToShorten)
      whole.while_timed = [this](double between_updates) { look_ahead(between_updates); };
    Outcome best = make_plan(whole);
    if (!leave_empty || all.size() < 2 || all.size() > kLongestToShorten) return best;
    for (int round = 0; round < kMostRounds; ++round) {
      const Places before = kept_;
      std::vector<Places> tries;
      // Those that have no work mostly are of no use, but some of them may be in a ring that has fewer of all.
      if (!all_stream_) tries = fewer_devices(best);
      drop_idle(best);
      if (all_stream_ || kept_ != before)
        for (Places& fewer : fewer_devices(best))
          if (std::ranges::find(tries, fewer) == tries.end()) tries.push_back(std::move(fewer));
      Outcome better;
      Places places;
      for (const Places& fewer : tries) {
        if (task_->options.strategy == Strategy::kKind && others_.contains(fewer)) continue;  // of a round before, and no faster
        const double wanted = std::max(rate_of(best) * (1 + worth()), rate_of(better));
        Outcome outcome = outcome_of(fewer, to_compare_ ? 0 : wanted);
        note(fewer, outcome);
        if (rate_of(outcome) <= wanted) continue;
        better = std::move(outcome);
        places = fewer;
      }
      if (!better.feasible) break;
      note(kept_, best);
      if (best.feasible) hold_to_bound(best, better);
      best = std::move(better);
      kept_ = std::move(places);
    }
    if (some_stream_ && task_->options.strategy != Strategy::kKind) {
      try_without_kinds(best);
      try_kinds_alone(all, best);
    }
    return best;
  }

  std::string idle() const { return device_list(*task_, kept_); }
  // The best of those that were planned and not chosen; with one of each run left out where nothing was.
  std::optional<std::pair<std::string, double>> next_best() {
    if (others_.empty())
      for (const auto& run : runs_of(*task_, kept_)) {
        const Places fewer = without_last(kept_, run, 1);
        if (!fewer.empty()) note(fewer, outcome_of(fewer));
      }
    std::optional<std::pair<std::string, double>> best;
    for (const auto& [places, rate] : others_)
      if (places != kept_ && rate > 0 && (!best || rate > best->second)) best = {device_list(*task_, places), rate};
    return best;
  }

 private:
  // Without those that have no work anyway others have more to choose: more of a mini-batch's samples may share a micro-batch.
  void drop_idle(Outcome& best) {
    if (!best.plan) return;
    Places fewest = working(best, /*one_of_each=*/false);
    if (fewest.empty() || fewest.size() == kept_.size()) return;
    Outcome same = outcome_of(fewest);
    // A processor at the head of boards, or at their end, hands them samples by the micro-batch, which may be faster than boards alone.
    if (Places few = working(best, /*one_of_each=*/true); some_stream_ && !all_stream_ && few != fewest && few != kept_) {
      Outcome with_these = outcome_of(few);
      if (rate_of(with_these) > rate_of(same)) {
        same = std::move(with_these);
        fewest = std::move(few);
      }
    }
    // A little slower by itself: the plan that is known stays, and the next round is of those that work.
    if (rate_of(same) < rate_of(best) * (1 - kNearly)) return;
    kept_ = std::move(fewest);
    if (rate_of(same) < rate_of(best) * (1 - kWorthAnother)) return;
    hold_to_bound(best, same);
    best = std::move(same);
  }

  // Those that have work; and one of each row that has none.
  Places working(const Outcome& known, bool one_of_each) const {
    Places working;
    for (const auto& [first, last] : runs_of(*task_, kept_)) {
      const size_t before = working.size();
      for (size_t i = first; i <= last; ++i)
        if (!fast_item(known.summary.devices, kept_[i]).shards.empty()) working.push_back(kept_[i]);
      if (one_of_each && working.size() == before) working.push_back(kept_[first]);
    }
    return working;
  }

  // Rows of devices of one kind, each with as many of them as are best: leaving out one after the other from all of them together may have
  // ended with another kind, which a few of these surpass.
  void try_kinds_alone(const Places& all, Outcome& best) {
    const auto runs = runs_of(*task_, all);
    if (runs.size() < 2) return;
    for (const auto& [first, last] : runs) {
      const Places row(all.begin() + static_cast<std::ptrdiff_t>(first), all.begin() + static_cast<std::ptrdiff_t>(last + 1));
      // Boards of the row were left out one after the other; of processors a few may be what was best before the others were thought of.
      if (is_board(row.front()) && std::ranges::includes(row, kept_)) continue;
      try_alone(row, best);
    }
  }

  // Where a whole row of those that are kept is worth next to nothing: what is best without it may be far from where one device after the
  // other leads.
  void try_without_kinds(Outcome& best) {
    if (all_stream_ || !some_stream_ || !best.feasible) return;
    const auto runs = runs_of(*task_, kept_);
    if (runs.size() < 3) return;
    for (const auto& run : runs) {
      const Places others = without_last(kept_, run, run.second - run.first + 1);
      if (rate_of(outcome_of(others)) < rate_of(best) * (1 - kNearly)) continue;
      try_alone(others, best);
      return;
    }
  }

  // Of these devices alone as many as are best.
  void try_alone(const Places& some, Outcome& best) {
    const double wanted = rate_of(best) * (1 + worth());
    const PlanTask alone = without_devices(*task_, some);
    if (!can_reach(alone, std::max(wanted, kAnyRate), /*closely=*/true, /*some_idle=*/true)) return;
    RingChooser chooser(alone, false);
    if (rate_of(chooser.run(true)) <= wanted) return;
    Places places;
    for (const int64_t place : chooser.kept_) places.push_back(fast_item(some, place));
    Outcome better = outcome_of(places);
    if (rate_of(better) <= wanted) return;
    note(kept_, best);
    note(places, better);
    if (best.feasible) hold_to_bound(best, better);
    best = std::move(better);
    kept_ = std::move(places);
  }

  // Fewer boards that are out of the question if the whole ring's updates take about as little as they mostly do.
  void look_ahead(double between_updates) {
    if (folds(task_->cluster)) return;
    const double rate = between_updates * (1 + worth() / 2);
    for (const auto& run : runs_of(*task_, kept_)) {
      const Places fewer = without_last(kept_, run, 1);
      if (!fewer.empty() && !is_out_of_reach(fewer, rate) && !can_reach(without_devices(*task_, fewer), rate, /*closely=*/false))
        out_of_reach_.insert_or_assign(fewer, rate);
    }
  }
  bool is_out_of_reach(const Places& places, double rate) const {
    const auto known = out_of_reach_.find(places);
    return known != out_of_reach_.end() && known->second <= rate;
  }

  double worth() const { return all_stream_ ? kWorthIdleBoards : kWorthChoosing; }
  void note(const Places& places, const Outcome& outcome) { others_.emplace(places, rate_of(outcome)); }

  Outcome outcome_of(const Places& kept, double wanted = 0) const {
    PlanTask smaller = without_devices(*task_, kept);
    smaller.wanted = wanted;
    Outcome outcome = make_plan(smaller);
    if (!outcome.feasible || !outcome.plan) return outcome;
    outcome.plan = on_whole_ring(*outcome.plan, *task_, kept);
    outcome.summary = summarize(*outcome.plan, *task_->graph);
    return outcome;
  }

  // What boards alone take between updates at most, with fewer of them, to be faster than what is known by `rate`.
  double samples_between_updates(const Outcome& known, double rate) const {
    if (!known.feasible || !all_stream_ || task_->options.accounting != Accounting::kFull || !known.plan) return rate;
    const auto travels = [](const ParameterHome& home) { return home.home != home.user; };
    if (std::ranges::any_of(known.plan->homes, travels)) return rate;
    double latency = 0;
    for (const LinkEntry& link : task_->cluster.links) latency += 2e-6 * link.latency_us;
    const auto samples = static_cast<double>(task_->options.mini_batch);
    const double update = samples / rate_of(known) - samples * known.summary.seconds_per_image;
    const double between = 1 / rate - std::max(0.0, kUpdateOfFewer * update - latency) / samples;
    return between > 0 ? std::max(rate, 1 / between) : rate;
  }

  // Which devices to keep, where that may be faster than what is known.
  std::vector<Places> fewer_devices(const Outcome& known) const {
    if (folds(task_->cluster)) return fewer_laps();
    if (task_->options.strategy == Strategy::kKind) return fewer_boards(known);
    std::vector<Places> tries;
    const double rate = samples_between_updates(known, rate_of(known) * (1 + worth()));
    const auto may_reach = [&](const Places& places, double wanted) {
      return !known.feasible || (!is_out_of_reach(places, wanted) && can_reach(without_devices(*task_, places), wanted));
    };
    const auto runs = runs_of(*task_, kept_);
    for (const auto& run : runs) {
      const size_t length = run.second - run.first + 1;
      if (runs.size() > 1 && length > 1) {
        Places others = without_last(kept_, run, length);
        if (may_reach(others, rate)) tries.push_back(std::move(others));
      }
      // What is out of the reach of one board less is out of the reach of fewer, unless they were the slowest, for which streams are wide.
      if (all_stream_ && kept_.size() > 1 && !may_reach(without_last(kept_, run, 1), rate)) continue;
      // Some of one kind alone: leaving out others one kind at a time may get slower before it gets faster. Beside boards a run is taken
      // whole, where that is not to leave out the only other one.
      const bool mixed = some_stream_ && !all_stream_;
      const bool tries_alone = mixed ? runs.size() > 2 : runs.size() > 1 && !some_stream_;
      for (size_t left = mixed ? length : 1; tries_alone && left <= length; ++left) {
        Places alone(kept_.begin() + static_cast<std::ptrdiff_t>(run.first), kept_.begin() + static_cast<std::ptrdiff_t>(run.first + left));
        if (may_reach(alone, rate)) tries.push_back(std::move(alone));
      }
      if (!known.feasible && length > 1) continue;  // fewer of a kind hold less
      if (kept_.size() < 2) continue;
      for (size_t count = 1; count < length + (runs.size() > 1 && length == 1 ? 1 : 0); ++count) {
        Places places = without_last(kept_, run, count);
        // Fewer devices leave room for larger micro-batches, so one that cannot does not speak for fewer.
        if (may_reach(places, rate)) tries.push_back(std::move(places));
        if (some_stream_) break;
      }
      // A device without work at the head of the ring holds up no sample on its way round.
      if (mixed && run.first == 0 && length > 1) {
        Places places(kept_.begin() + 1, kept_.end());
        if (may_reach(places, rate)) tries.push_back(std::move(places));
      }
      if (mixed && known.feasible)
        for (Places& places : shorter_for_micro_batches(run))
          if (may_reach(places, rate)) tries.push_back(std::move(places));
      if (!some_stream_ || !known.feasible || length < 3) continue;
      // As many as change nothing between updates.
      const double steady = (1 - kWorthChoosing) / known.summary.seconds_per_image;
      size_t low = 1;
      size_t high = length;  // so many are too many
      // Mostly no second one is to be left out: from there in growing steps.
      for (size_t step = 1; high - low > 1;) {
        const size_t next = low + std::min(step, (high - low) / 2);
        const bool reaches = may_reach(without_last(kept_, run, next), steady);
        (reaches ? low : high) = next;
        if (reaches) step *= 2;
      }
      if (low > 1 && may_reach(without_last(kept_, run, low), rate)) tries.push_back(without_last(kept_, run, low));
      // And between: the fewest may hold an update up longer than some more do.
      for (size_t keeps = 1; keeps < length; keeps *= 2)
        if (const size_t count = length - keeps; count > 1 && count < low && may_reach(without_last(kept_, run, count), rate))
          tries.push_back(without_last(kept_, run, count));
    }
    return tries;
  }

  // As many of a row as are too many for a larger micro-batch, each time one more may be chosen.
  std::vector<Places> shorter_for_micro_batches(const std::pair<size_t, size_t>& run) const {
    std::vector<Places> tries;
    const auto sizes_of = [&](const Places& places) { return micro_batches_to_try(without_devices(*task_, places)).size(); };
    size_t sizes = sizes_of(without_last(kept_, run, 1));  // one is left out anyway
    for (size_t count = 2; count <= run.second - run.first; ++count) {
      Places places = without_last(kept_, run, count);
      if (const size_t more = sizes_of(places); more > sizes) {
        sizes = more;
        tries.push_back(std::move(places));
      }
    }
    return tries;
  }

  // Strategy kind gives every device work: of each row of boards the last are left out, any number of them. What cannot be planned with all
  // boards, since that leaves a row without a CPU or GPU behind it or has more boards than cells, stays as it was written: those that are
  // left out are to be faster, or to let others have work.
  std::vector<Places> fewer_boards(const Outcome& known) const {
    if (!known.feasible && known.reason.resource == "cells") return {};
    std::vector<std::pair<size_t, size_t>> rows;
    for (const auto& run : runs_of(*task_, kept_))
      if (is_board(kept_[run.first])) rows.push_back(run);
    size_t ways = 1;
    for (const auto& [first, last] : rows) ways = std::min(kMostRowsOfBoards + 1, ways * (last - first + 2));
    std::vector<Places> tries;
    const auto add = [&](const std::vector<size_t>& left) {
      Places fewer = kept_;
      size_t boards = 0;
      for (size_t r = rows.size(); r-- > 0;) {
        const size_t length = rows[r].second - rows[r].first + 1;
        // With --divide all every row is to make steps.
        if (task_->options.divide_all && left[r] == length) return;
        boards += length - left[r];
        if (left[r] > 0) fewer = without_last(fewer, rows[r], left[r]);
      }
      if (fewer.size() < kept_.size() && !fewer.empty() && (known.feasible || boards > 0)) tries.push_back(std::move(fewer));
    };
    std::vector<size_t> left(rows.size());
    if (ways > kMostRowsOfBoards) {
      for (size_t r = 0; r < rows.size(); ++r, std::ranges::fill(left, 0))
        for (left[r] = 1; left[r] <= rows[r].second - rows[r].first + 1; ++left[r]) add(left);
      return tries;
    }
    for (size_t way = 1; way < ways; ++way) {
      size_t rest = way;
      for (size_t r = 0; r < rows.size(); ++r) {
        const size_t counts = rows[r].second - rows[r].first + 2;
        left[r] = rest % counts;
        rest /= counts;
      }
      add(left);
    }
    return tries;
  }
  bool is_board(int64_t device) const { return fast_item(task_->models, device)->dedicated_engines(); }

  // Of two cards that fill all places in turn: what fewer laps, or the first card alone, would do. The layers that are not divided then are
  // whole on the first card, whichever is best.
  std::vector<Places> fewer_laps() const {
    if (kept_.size() != task_->models.size() || kept_.size() > kMostPlacesToFold) return {};
    const std::vector<int64_t> seats = seats_of(task_->cluster);
    for (size_t d = 0; d < seats.size(); ++d)
      if (seats[d] != static_cast<int64_t>(d % 2)) return {};
    std::vector<Places> tries;
    for (size_t places = kept_.size() % 2 == 1 ? kept_.size() : 1; places > 2;)
      tries.emplace_back(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(places -= 2));
    return tries;
  }

  // What the ring could do with all its devices bounds it without some of them too.
  void hold_to_bound(const Outcome& whole, Outcome& fewer) const {
    if (!whole.plan || !fewer.plan) return;
    Plan& plan = *fewer.plan;
    if (task_->options.accounting == Accounting::kFull) choose_before(whole.summary, fewer.summary, plan);
    if (plan.lower_bound_seconds_per_image <= whole.plan->lower_bound_seconds_per_image) return;
    plan.lower_bound_seconds_per_image = whole.plan->lower_bound_seconds_per_image;
    plan.optimality_gap = std::max(0.0, fewer.summary.seconds_per_image / plan.lower_bound_seconds_per_image - 1);
    fewer.summary = summarize(plan, *task_->graph);
  }

  const PlanTask* task_;
  Places kept_;
  bool to_compare_ = false;
  bool some_stream_ = false;
  bool all_stream_ = false;
  std::map<Places, double> others_;
  std::map<Places, double> out_of_reach_;  // samples a second
};

}  // namespace

double rate_of(const Outcome& outcome) { return outcome.feasible ? outcome.summary.images_per_second : 0; }

std::string device_list(const PlanTask& task, const Places& kept) {
  std::string text;
  for (int64_t d = 0; d < static_cast<int64_t>(task.models.size()); ++d)
    if (!std::ranges::binary_search(kept, d))
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", d, fast_item(task.cluster.devices, d).device);
  return text.empty() ? "none" : text;
}

RingChoice choose_devices(const PlanTask& task, bool leave_empty, bool next_best) {
  RingChooser ring(task, next_best);
  RingChoice choice;
  choice.outcome = ring.run(leave_empty);
  choice.idle = ring.idle();
  if (next_best && leave_empty) choice.next_best = ring.next_best();
  return choice;
}

}  // namespace millrace
