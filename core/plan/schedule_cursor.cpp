#include "core/plan/schedule_cursor.h"

#include <algorithm>

#include "core/base/check.h"

namespace millrace {

ScheduleCursor::ScheduleCursor(const ScheduleSpec& spec, int64_t first)
    : spec_(spec), decided_(first), updates_(first), next_forward_(first * spec.micro_batches), next_back_(next_forward_) {
  MILLRACE_CHECK(spec.micro_batches > 0 && spec.window > 0 && (drains(spec.alignment) || spec.window <= spec.micro_batches + 1),
                 "a window of {} and mini-batches of {}", spec.window, spec.micro_batches);
}

const Action* ScheduleCursor::next() {
  if (queue_.empty()) refill();
  if (queue_.empty()) return nullptr;
  const Action& action = queue_.front();
  return action.kind == ActionKind::kUpdate && action.index >= decided_ ? nullptr : &action;
}

void ScheduleCursor::pop() {
  MILLRACE_CHECK(!queue_.empty(), "no action to pop");
  const Action action = queue_.front();
  queue_.pop_front();
  if (action.kind != ActionKind::kUpdate) return;
  ++updates_;
  const MiniBatchDecision decision = decisions_.front();
  decisions_.pop_front();
  for (int64_t i = decision.evaluation_micro_batches; i-- > 0;)
    queue_.push_front({.kind = ActionKind::kValidate, .index = i, .version = updates_});
}

void ScheduleCursor::decide(int64_t mini_batch, const MiniBatchDecision& decision) {
  MILLRACE_CHECK(mini_batch == decided_ && end_ < 0, "decision on mini-batch {}, due is {}", mini_batch, decided_);
  decisions_.push_back(decision);
  ++decided_;
  if (decision.last) end_ = decided_;
}

void ScheduleCursor::evaluate_only(int64_t micro_batches) {
  MILLRACE_CHECK(queue_.empty() && decisions_.empty() && end_ < 0, "the training has begun");
  end_ = updates_;
  for (int64_t i = 0; i < micro_batches; ++i) queue_.push_back({.kind = ActionKind::kValidate, .index = i, .version = updates_});
}

bool ScheduleCursor::may_begin(int64_t micro_batch) const {
  const int64_t mini_batch = micro_batch / spec_.micro_batches;
  return mini_batch <= decided_;
}

void ScheduleCursor::push(ActionKind kind, int64_t index, int64_t version) {
  if (spec_.chunks <= 1 || kind == ActionKind::kUpdate) {
    queue_.push_back({.kind = kind, .index = index, .version = version});
    return;
  }
  const bool ascending = kind == ActionKind::kForward;
  for (int32_t i = 0; i < spec_.chunks; ++i)
    queue_.push_back({.kind = kind, .index = index, .chunk = ascending ? i : spec_.chunks - 1 - i, .version = version});
}

void ScheduleCursor::push_drained(int64_t mini_batch) {
  ScheduleSpec one = spec_;
  one.mini_batches = 1;
  one.evaluate_after.clear();
  for (Action action : actions_of(one)) {
    action.index += action.kind == ActionKind::kUpdate ? mini_batch : mini_batch * spec_.micro_batches;
    action.version = mini_batch;
    queue_.push_back(action);
  }
}

void ScheduleCursor::refill() {
  if (updates_ == end_) return;
  const int64_t n = spec_.micro_batches;
  if (drains(spec_.alignment)) {
    if (may_begin(updates_ * n)) push_drained(updates_);
    return;
  }
  const auto exists = [&](int64_t s) { return end_ < 0 || s < end_ * n; };
  const auto forward = [&] {
    push(ActionKind::kForward, next_forward_, forward_version(spec_, next_forward_));
    ++next_forward_;
  };
  // Up to the window first; then one for every E, which is why it is never more than the window ahead.
  if (next_forward_ < next_back_ + spec_.window && exists(next_forward_)) {
    if (may_begin(next_forward_)) forward();
    return;
  }
  push(ActionKind::kErrorBack, next_back_, error_version(spec_, next_back_));
  push(ActionKind::kParameterGradient, next_back_, error_version(spec_, next_back_));
  ++next_back_;
  if (next_back_ % n == 0) push(ActionKind::kUpdate, next_back_ / n - 1, next_back_ / n - 1);
}

bool PassCounter::takes_pass(const Action& action) {
  if (action.kind == ActionKind::kParameterGradient) return false;
  if (action.kind == ActionKind::kUpdate) {
    open_ = false;
    return false;
  }
  if (action.kind == ActionKind::kValidate) {
    open_ = false;
    return true;
  }
  if (previous_.kind == action.kind && previous_.index == action.index) return false;
  const bool joins = action.kind == ActionKind::kForward && open_ && version_ == action.version;
  open_ = action.kind == ActionKind::kErrorBack && !alone_;
  version_ = action.version;
  previous_ = action;
  return !joins;
}

}  // namespace millrace
