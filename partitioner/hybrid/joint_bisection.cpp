#include "partitioner/hybrid/joint_bisection.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace millrace {

void RingSolver::JointBisection::run(double start, Effort effort) {
  if (!best_.feasible) find_any(start);
  if (!best_.feasible || effort == Effort::kQuick) return;
  for (const auto& [cells, tolerance] : kLevels) {
    every_place_ = true;
    descend(cells, tolerance);
    raise(cells, tolerance);
    if (every_place_) {  // more cells would tell no more
      descend(cells, kExact);
      raise(cells, kExact);
      break;
    }
    if (best_.period <= impossible_ * (1 + kCloseEnough) || work_ > kMostWork) break;
  }
  if (joint_) speed_up_devices();
}

JointAnswer::Verdict RingSolver::JointBisection::at(const Periods& periods, int64_t cells) {
  JointAnswer answer = solver_->joint_.at(periods, cells);
  work_ += answer.work;
  every_place_ = every_place_ && answer.every_place;
  if (answer.verdict == JointAnswer::Verdict::kImpossible) {
    nearest_ = std::move(answer.cuts);
    return answer.verdict;
  }
  std::optional<RingSolution> found;
  if (answer.verdict == JointAnswer::Verdict::kFound) found = solver_->solution_of(answer.cuts, periods);
  const auto keeps = [&] { return found && found->period <= std::max(periods.compute, periods.link) * (1 + 1e-12); };
  if (!keeps()) {
    if (const std::optional<ExhaustiveAnswer> all = solver_->exhaustive_.at(periods)) {
      if (!all->possible) {
        nearest_ = std::move(answer.cuts);
        return JointAnswer::Verdict::kImpossible;
      }
      found = solver_->solution_as_kept(*all, periods);
    }
  }
  if (!found) {
    if (answer.verdict != JointAnswer::Verdict::kFound) nearest_ = std::move(answer.cuts);
    return JointAnswer::Verdict::kUndecided;
  }
  const bool kept = keeps();
  if (!best_.feasible || found->period < best_.period ||
      (kept && found->period == best_.period && found->compute_period < best_.compute_period)) {
    best_ = std::move(*found);
    joint_ = true;
    cells_ = cells;
  }
  return kept ? JointAnswer::Verdict::kFound : JointAnswer::Verdict::kUndecided;
}

void RingSolver::JointBisection::find_any(double start) {
  for (const double slower : {1.0, 1.03, 1.2, 2.0, 8.0, 64.0}) {
    if (at({start * slower, start * slower}, kLevels[0].cells) == JointAnswer::Verdict::kFound) return;
    if (best_.feasible) return;
  }
  const Periods endless{kLongestPeriod, kLongestPeriod};
  for (const int64_t cells : {24, 96, 384, 1536}) {
    const JointAnswer::Verdict verdict = at(endless, cells);
    decided_ = verdict == JointAnswer::Verdict::kImpossible;
    if (best_.feasible || decided_) return;
  }
  for (const double slower : {1.03, 1.2, 2.0, 8.0, 64.0})
    for (const int64_t cells : {384, 1536})
      if (at({start * slower, start * slower}, cells); best_.feasible) return;
}

void RingSolver::JointBisection::descend(int64_t cells, double tolerance) {
  double low = impossible_;
  while (best_.period - low > tolerance * best_.period && work_ <= kMostWork) {
    const double middle = best_.period > 4 * low ? 2 * std::max(low, best_.period / 1024) : low + (best_.period - low) / 2;
    const double before = best_.period;
    const JointAnswer::Verdict verdict = at({middle, middle}, cells);
    if (verdict == JointAnswer::Verdict::kImpossible) impossible_ = std::max(impossible_, middle);
    if (verdict != JointAnswer::Verdict::kFound || best_.period >= before) low = middle;
  }
}

void RingSolver::JointBisection::raise(int64_t cells, double tolerance) {
  double open = best_.period;
  while (open - impossible_ > tolerance * open && work_ <= kMostWork) {
    const double middle = open > 4 * impossible_ ? open / 2 : impossible_ + (open - impossible_) / 2;
    if (at({middle, middle}, cells) == JointAnswer::Verdict::kImpossible) {
      impossible_ = middle;
    } else {
      open = middle;
    }
    open = std::min(open, best_.period);
  }
}

void RingSolver::JointBisection::speed_up_devices() {
  const double link = best_.period;
  double low = 0;
  double high = best_.compute_period;
  if (at({high * (1 - 1e-6), link}, cells_) != JointAnswer::Verdict::kFound) return;
  while (high - low > 1e-3 * high && work_ <= kMostWork) {
    const double middle = low + (high - low) / 2;
    (at({middle, link}, cells_) == JointAnswer::Verdict::kFound ? high : low) = middle;
  }
}

}  // namespace millrace
