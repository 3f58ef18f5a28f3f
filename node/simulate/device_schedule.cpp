#include "node/simulate/device_schedule.h"

#include <algorithm>

namespace millrace {
namespace {

// Passes over parameters stored elsewhere, by the rule of parameter_passes: an E opens one that the F of the same version
// right after it joins.
void walk_passes(DeviceSchedule& schedule, int64_t n) {
  bool open = false;
  int64_t open_version = 0;
  const auto open_pass = [&](int64_t version, int64_t mini_batch) {
    schedule.pass_version.push_back(version);
    schedule.pass_mini_batch.push_back(mini_batch);
  };
  for (const Action& action : schedule.actions) {
    const auto index = static_cast<size_t>(action.index);
    switch (action.kind) {
      case ActionKind::kErrorBack:
        open_pass(action.version, action.index / n);
        open = true;
        open_version = action.version;
        schedule.error_pass[index] = static_cast<int64_t>(schedule.pass_version.size());
        break;
      case ActionKind::kForward:
        if (!open || open_version != action.version) {
          const int64_t behind = drains(schedule.spec.alignment) ? action.index : action.index - schedule.spec.window;
          open_pass(action.version, behind < 0 ? -1 : behind / n);
        }
        open = false;
        schedule.forward_pass[index] = static_cast<int64_t>(schedule.pass_version.size());
        break;
      case ActionKind::kUpdate: open = false; break;
      case ActionKind::kParameterGradient:
      case ActionKind::kValidate: break;
    }
  }
}

// Update m makes version m + 1: the copy it overwrites must be out of use.
void find_updates(DeviceSchedule& schedule, int64_t micro_batches, int64_t n) {
  const int64_t held = versions_held(schedule.spec);
  const auto done_with = [&](const std::vector<int64_t>& versions, int64_t version) {
    return static_cast<int64_t>(std::upper_bound(versions.begin(), versions.end(), version) - versions.begin());
  };
  for (int64_t m = 0; m < micro_batches / n; ++m) {
    const int64_t overwritten = m + 1 - held;
    schedule.forwards_before.push_back(done_with(schedule.forward_version, overwritten));
    schedule.errors_before.push_back(done_with(schedule.error_version, overwritten));
    schedule.gradients_before.push_back((m + 1) * n);
  }
}

}  // namespace

DeviceSchedule device_schedule(ScheduleSpec spec, int64_t micro_batches) {
  const int64_t n = spec.micro_batches;
  spec.mini_batches = (micro_batches + n - 1) / n;
  DeviceSchedule schedule;
  schedule.spec = spec;
  schedule.actions = actions_of(spec);
  std::erase_if(schedule.actions, [&](const Action& action) {
    return action.kind == ActionKind::kUpdate ? action.index >= micro_batches / n : action.index >= micro_batches;
  });
  for (int64_t s = 0; s < micro_batches; ++s) {
    schedule.forward_version.push_back(forward_version(spec, s));
    schedule.error_version.push_back(error_version(spec, s));
    schedule.gradient_version.push_back(s / n);
  }
  schedule.forward_pass.resize(static_cast<size_t>(micro_batches));
  schedule.error_pass.resize(static_cast<size_t>(micro_batches));
  walk_passes(schedule, n);
  find_updates(schedule, micro_batches, n);
  return schedule;
}

double passes_per_mini_batch(const DeviceSchedule& schedule) {
  const auto micro_batches = static_cast<int64_t>(schedule.forward_version.size());
  const int64_t n = schedule.spec.micro_batches;
  const auto of_first = static_cast<double>(std::count(schedule.pass_mini_batch.begin(), schedule.pass_mini_batch.end(), 0));
  if (micro_batches >= 2 * n) return of_first;
  // The first mini-batch is all there is, and may be cut short.
  return of_first * static_cast<double>(n) / static_cast<double>(std::min(n, micro_batches));
}

}  // namespace millrace
