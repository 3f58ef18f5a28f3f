// What every part of a rank shares: the task, where it runs, and what has been decided about mini-batches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>

#include "core/data/loader.h"
#include "core/device/device.h"
#include "core/train/action_times.h"
#include "core/train/course.h"
#include "core/train/executor.h"
#include "core/train/task.h"
#include "node/report/trace.h"
#include "transport/streams/transport.h"

namespace millrace {

// Made by rank 0 before device 0 goes on to the next mini-batch, and known everywhere before that mini-batch's update.
struct Decision {
  bool last = false;
  bool evaluate = false;
  bool checkpoint = false;
};

// By mini-batch; those before the first one asked for are forgotten now and then.
class DecisionBook {
 public:
  void enter(int64_t mini_batch, const Decision& decision) { decisions_[mini_batch] = decision; }
  bool knows(int64_t mini_batch) const { return decisions_.contains(mini_batch); }
  const Decision& on(int64_t mini_batch) const { return decisions_.at(mini_batch); }
  void forget_before(int64_t mini_batch) { decisions_.erase(decisions_.begin(), decisions_.lower_bound(mini_batch)); }

 private:
  std::map<int64_t, Decision> decisions_;
};

// What a rank hears from its devices.
class RankEvents {
 public:
  virtual ~RankEvents() = default;
  // On the last device: all F of a mini-batch, all V after it.
  virtual void mini_batch_scored(int64_t mini_batch, const Score& score) = 0;
  virtual void evaluation_scored(int64_t mini_batch, const Score& score) = 0;
  // The loss of micro-batch s is not finite. Does not return.
  [[noreturn]] virtual void loss_not_finite(int64_t s) = 0;
  // On the first device: the samples of micro-batch s, as its forward pass begins.
  virtual void loaded(int64_t s, std::span<const int64_t> samples) = 0;
  // A share of the checkpoint after this mini-batch; rank 0 awaits one from each updatable.
  virtual void saved(int64_t mini_batch, int64_t device, std::vector<std::byte> share) = 0;
};

// Hears of every evaluation micro-batch where the network's last device is, in order.
using EvaluationVisitor = std::function<void(SegmentExecutor& segment, const Batch& loaded)>;

struct RingContext {
  const TrainingTask* task = nullptr;
  const Course* course = nullptr;  // of the training; null for an evaluation alone
  const Plan* run = nullptr;       // the task's plan as it is computed here (run_plan)
  Transport* transport = nullptr;
  DecisionBook* decisions = nullptr;
  RankEvents* events = nullptr;
  Trace* trace = nullptr;                          // null: none
  ActionStopwatch* watch = nullptr;                // null: actions are not timed
  const ActionTimes* pace = nullptr;               // null: actions take as long as they take; else no less than this says
  const EvaluationVisitor* evaluations = nullptr;  // null: nobody
  int64_t replica = 0;
  int64_t first_mini_batch = 0;

  const Plan& plan() const { return *run; }
  const Graph& graph() const { return *task->graph; }
};

}  // namespace millrace
