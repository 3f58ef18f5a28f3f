#include "node/simulate/device_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/index.h"

namespace millrace::simulation {
namespace {

// Passes over parameters stored elsewhere, by the rule of parameter_passes: an E opens one that the F of the same version
// right after it joins.
void walk_passes(DeviceSchedule& schedule, int64_t n) {
  bool open = false;
  int64_t open_version = 0;
  const Action* before = nullptr;  // the last F or E: chunks of a micro-batch share its pass
  const auto goes_on = [&](const Action& action) {
    const bool same = before != nullptr && before->kind == action.kind && before->index == action.index;
    before = &action;
    return same;
  };
  const auto open_pass = [&](int64_t version, int64_t mini_batch) {
    schedule.pass_version.push_back(version);
    schedule.pass_mini_batch.push_back(mini_batch);
  };
  for (const Action& action : schedule.actions) {
    const auto index = to_size(action.index);
    switch (action.kind) {
      case ActionKind::kErrorBack:
        if (goes_on(action)) break;
        open_pass(action.version, action.index / n);
        open = !schedule.spec.loads_every_pass;
        open_version = action.version;
        schedule.error_pass[index] = static_cast<int64_t>(schedule.pass_version.size());
        break;
      case ActionKind::kForward:
        if (goes_on(action)) break;
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

// Engines side by side take samples through before the list is through with all F of a mini-batch: each pass then comes when the
// first of those that it serves needs it. Only lists whose E do not follow their F by a window are changed by this.
void order_passes(DeviceSchedule& schedule) {
  const auto passes = schedule.pass_version.size();
  std::vector<int64_t> due(passes, std::numeric_limits<int64_t>::max());
  for (size_t s = 0; s < schedule.forward_pass.size(); ++s) {
    const auto sample = static_cast<int64_t>(s);
    int64_t& forward = item(due, schedule.forward_pass[s] - 1);
    int64_t& error = item(due, schedule.error_pass[s] - 1);
    forward = std::min(forward, sample);
    error = std::min(error, sample + schedule.spec.window);
  }
  std::vector<size_t> order(passes);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(schedule.pass_version[a], due[a]) < std::pair(schedule.pass_version[b], due[b]);
  });
  const DeviceSchedule listed = schedule;
  std::vector<int64_t> place(passes);
  for (size_t i = 0; i < passes; ++i) {
    place[order[i]] = static_cast<int64_t>(i) + 1;
    schedule.pass_version[i] = listed.pass_version[order[i]];
    schedule.pass_mini_batch[i] = listed.pass_mini_batch[order[i]];
  }
  for (int64_t& pass : schedule.forward_pass) pass = item(place, pass - 1);
  for (int64_t& pass : schedule.error_pass) pass = item(place, pass - 1);
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

DeviceSchedule device_schedule(ScheduleSpec spec, int64_t micro_batches, bool side_by_side) {
  const int64_t n = spec.micro_batches;
  spec.mini_batches = (micro_batches + n - 1) / n;
  if (side_by_side) spec.chunks = 1;  // rows are finer than any chunks
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
  schedule.forward_pass.resize(to_size(micro_batches));
  schedule.error_pass.resize(to_size(micro_batches));
  walk_passes(schedule, n);
  if (side_by_side && drains(spec.alignment)) order_passes(schedule);
  find_updates(schedule, micro_batches, n);
  return schedule;
}

double passes_per_mini_batch(const DeviceSchedule& schedule) {
  const auto micro_batches = static_cast<int64_t>(schedule.forward_version.size());
  const int64_t n = schedule.spec.micro_batches;
  // From the second on every mini-batch is like the one before, as long as the F that go with its E are still in the run.
  const int64_t full = std::max<int64_t>(0, std::min<int64_t>(1, micro_batches / n - (schedule.spec.window > n ? 3 : 2)));
  const auto passes = static_cast<double>(std::count(schedule.pass_mini_batch.begin(), schedule.pass_mini_batch.end(), full));
  if (micro_batches >= 2 * n) return passes;
  // The first mini-batch is all there is, and may be cut short.
  return passes * static_cast<double>(n) / static_cast<double>(std::min(n, micro_batches));
}

}  // namespace millrace::simulation
