// The list of core/plan/schedule.h one action at a time and without an end, for a training that learns on its way when to
// evaluate and when to stop.
//
//   ScheduleCursor cursor(schedule_spec(plan, device, /*mini_batches=*/0));
//   cursor.decide(0, {});                               // mini-batch 0 is not the last and is followed by no evaluation
//   while (const Action* action = cursor.next()) {      // null: over, or awaited_decision() has to be made first
//     perform(*action);
//     cursor.pop();
//   }
//
// Decisions are made in order, one per mini-batch: whether it is the last one, and how many evaluation micro-batches
// follow its U. The first F of mini-batch k (other than the first) needs the decision on k - 1, the U of mini-batch m the one on m. With
// decisions as in ScheduleSpec the actions are those of actions_of: a test says so.
// A training resumed after `first` updates starts with the F's that were under way then (alignments that do not drain).
// Plain value, copied freely.
#pragma once

#include <cstdint>
#include <deque>

#include "core/plan/schedule.h"

namespace millrace {

struct MiniBatchDecision {
  bool last = false;
  int64_t evaluation_micro_batches = 0;
};

class ScheduleCursor {
 public:
  explicit ScheduleCursor(const ScheduleSpec& spec, int64_t first = 0);

  const Action* next();
  void pop();
  bool over() const { return queue_.empty() && updates_ == end_; }
  // The mini-batch whose decision next() waits for; meaningful when it returned null and the schedule is not over.
  int64_t awaited_decision() const { return decided_; }

  void decide(int64_t mini_batch, const MiniBatchDecision& decision);
  // Nothing is left to train: only this evaluation. Instead of any decision.
  void evaluate_only(int64_t micro_batches);
  // Mini-batches decided on so far, counted from the beginning of the training.
  int64_t decided() const { return decided_; }

 private:
  bool may_begin(int64_t micro_batch) const;
  void refill();
  void push(ActionKind kind, int64_t index, int64_t version);
  void push_drained(int64_t mini_batch);

  ScheduleSpec spec_;
  std::deque<Action> queue_;
  std::deque<MiniBatchDecision> decisions_;  // of mini-batches whose U has not been given out
  int64_t decided_;
  int64_t updates_;       // U's given out
  int64_t end_ = -1;      // updates in all, once known
  int64_t next_forward_;  // alignments that do not drain
  int64_t next_back_;
};

// The passes over remotely stored parameters that a device's actions take, as core/plan/schedule.h counts them.
//
//   PassCounter counter(spec);
//   if (counter.takes_pass(action)) fetch(action.version);
class PassCounter {
 public:
  explicit PassCounter(const ScheduleSpec& spec) : alone_(spec.loads_every_pass) {}

  // To be called for every action in order.
  bool takes_pass(const Action& action);

 private:
  bool alone_;
  bool open_ = false;  // an E's pass that the F behind it may join
  int64_t version_ = 0;
  Action previous_{.kind = ActionKind::kUpdate};  // the last F or E: chunks of one micro-batch share a pass
};

}  // namespace millrace
