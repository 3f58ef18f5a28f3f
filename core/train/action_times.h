// What the actions of each device of a ring take: measured by a training, for the simulator to reckon with and for a later
// training to keep to.
//
//   ActionStopwatch watch(/*of_processor=*/true);             // one per rank, on the thread that acts
//   watch.begin();  ...work...  watch.end(/*device=*/2, ActionKind::kForward);
//   watch.pause();  ...wait...  watch.resume(/*at_a_cost=*/crowded);    // waits belong to nobody; where cores are shared they cost
//   const ActionTimes times = action_times(plan, {watch.encoded(), ...});
//   save(times, "times.json");
//   const ActionTimes again = load_action_times("times.json", plan);      // fails unless it is of this plan
//
// `seconds` is what an action takes when nobody competes for its core: the thread's processor time where the device computes on
// it, else the time on the clock. Medians, without the first mini-batch, which allocates. MEASURED, all of it.
#pragma once

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/plan/schedule.h"

namespace millrace {

struct ActionTime {
  double seconds = 0;
  double wall_seconds = 0;  // by the clock, competition included
  int64_t count = 0;
};

struct DeviceActionTimes {
  int64_t rank = 0;                                            // that acted for it
  ActionTime forward, error_back, parameter_gradient, update;  // of a micro-batch; of a mini-batch
  double between_seconds = 0;                                  // what its rank does besides, per action: messages, looking round
  double waiting_seconds = 0;  // processor time inside its waits, per action, where more ranks than cores want it: messages taken, wakes
  const ActionTime* of(ActionKind kind) const;  // null: evaluation
};

struct ActionTimes {
  std::string plan_digest;
  int64_t ranks = 1;  // that they were measured on
  std::vector<DeviceActionTimes> devices;
};

class ActionStopwatch {
 public:
  struct Moment {
    double wall = 0, processor = 0;  // seconds
  };
  using Clock = Moment (*)();
  static Moment of_this_thread();

  explicit ActionStopwatch(bool of_processor, Clock now = of_this_thread) : of_processor_(of_processor), now_(now) {}

  void begin();
  void end(int64_t device, ActionKind kind);
  void pause();
  // The wait took the core from somebody who needed it, for as long as it was on one.
  void resume(bool at_a_cost = false);

  // As text that action_times() understands, from one rank to another.
  std::string encoded() const;

 private:
  static constexpr size_t kKinds = 4;  // F E G U
  struct Device {
    bool warm = false;  // past its first update
    std::array<std::vector<float>, kKinds> seconds, wall_seconds;
  };

  bool of_processor_;
  Clock now_;
  Moment since_;           // the beginning of what goes on now
  bool counting_ = false;  // some device is past its first update
  double between_ = 0, waiting_ = 0;
  int64_t actions_ = 0;
  std::map<int64_t, Device> devices_;
};

// `ranks[r]` is what rank r encoded. Fails with kUsage when a device has no two updates.
ActionTimes action_times(const Plan& plan, const std::vector<std::string>& ranks);

std::string text_of(const ActionTimes& times);
void save(const ActionTimes& times, const std::filesystem::path& path);
// Fails with kMalformed on what is no such file, with kMismatch when it was measured with another plan.
ActionTimes load_action_times(const std::filesystem::path& path, const Plan& plan);

}  // namespace millrace
