#include "core/plan/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "core/plan/retention.h"

namespace millrace {
namespace {

constexpr std::string_view kLetters = "FEGUV";

void demand(bool condition, std::string_view what, int64_t value) {
  if (!condition) fail(ErrorCode::kUsage, "no schedule: {} (got {})", what, value);
}

void check_spec(const ScheduleSpec& spec) {
  demand(spec.micro_batches >= 1, "a mini-batch needs at least one micro-batch", spec.micro_batches);
  demand(spec.window >= 1, "a window needs at least one micro-batch", spec.window);
  demand(spec.mini_batches >= 0, "the number of mini-batches must not be negative", spec.mini_batches);
  demand(spec.chunks >= 1, "at least one chunk per micro-batch", spec.chunks);
  demand(spec.evaluation_micro_batches >= 0, "evaluation micro-batches must not be negative", spec.evaluation_micro_batches);
  if (!drains(spec.alignment))
    demand(spec.window - 1 <= spec.micro_batches, "the window may exceed the micro-batches of a mini-batch by one at most", spec.window);
}

// Collects actions with their versions; expands chunks.
class ActionList {
 public:
  explicit ActionList(const ScheduleSpec& spec) : spec_(spec) {
    const auto evaluations = static_cast<int64_t>(spec.evaluate_after.size()) * spec.evaluation_micro_batches;
    actions_.reserve(to_size(spec.mini_batches * (3 * spec.micro_batches * spec.chunks + 1) + evaluations));
  }

  void forward(int64_t s) { add(ActionKind::kForward, s, forward_version(spec_, s)); }
  void error_back(int64_t s) { add(ActionKind::kErrorBack, s, error_version(spec_, s)); }
  void gradient(int64_t s) { add(ActionKind::kParameterGradient, s, error_version(spec_, s)); }
  void update(int64_t mini_batch) {
    actions_.push_back({ActionKind::kUpdate, mini_batch, -1, mini_batch});
    const auto& after = spec_.evaluate_after;
    if (std::find(after.begin(), after.end(), mini_batch) == after.end()) return;
    for (int64_t v = 0; v < spec_.evaluation_micro_batches; ++v) actions_.push_back({ActionKind::kValidate, v, -1, mini_batch + 1});
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  void add(ActionKind kind, int64_t s, int64_t version) {
    if (spec_.chunks == 1) return actions_.push_back({kind, s, -1, version});
    const bool ascending = kind == ActionKind::kForward;
    for (int32_t i = 0; i < spec_.chunks; ++i) actions_.push_back({kind, s, ascending ? i : spec_.chunks - 1 - i, version});
  }

  const ScheduleSpec& spec_;
  std::vector<Action> actions_;
};

void append_drained(const ScheduleSpec& spec, int64_t mini_batch, ActionList& list) {
  const int64_t n = spec.micro_batches;
  const int64_t first = mini_batch * n;
  if (spec.alignment == Alignment::kFlush) {
    for (int64_t i = 0; i < n; ++i) list.forward(first + i);
    for (int64_t i = 0; i < n; ++i) {
      list.error_back(first + i);
      list.gradient(first + i);
    }
    return;
  }
  const int64_t window = std::min(spec.window, n);
  const int64_t lag = gradient_lag(spec);
  for (int64_t i = 0; i < window; ++i) list.forward(first + i);
  for (int64_t i = 0; i < n; ++i) {
    list.error_back(first + i);
    if (i >= lag) list.gradient(first + i - lag);
    if (i + window < n) list.forward(first + i + window);
  }
  for (int64_t i = std::max<int64_t>(0, n - lag); i < n; ++i) list.gradient(first + i);
}

bool same_micro_batch_kind(const Action& a, const Action& b) { return a.kind == b.kind && a.index == b.index; }

}  // namespace

std::string text_of(const Action& action) {
  const char letter = item(kLetters, action.kind);
  if (action.chunk < 0) return fmt::format("{}{}", letter, action.index);
  return fmt::format("{}{}.{}", letter, action.index, action.chunk);
}

std::string text_of(std::span<const Action> actions) {
  std::string text;
  for (const Action& action : actions) {
    if (!text.empty()) text += ' ';
    text += text_of(action);
  }
  return text;
}

std::vector<Action> parse_actions(std::string_view text) {
  std::vector<Action> actions;
  size_t at = 0;
  while (true) {
    at = text.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) return actions;
    const size_t end = std::min(text.find_first_of(" \t\r\n", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const size_t kind = kLetters.find(word.front());
    Action action;
    const char* last = word.data() + word.size();
    auto [rest, reason] = std::from_chars(word.data() + 1, last, action.index);
    bool good = kind != std::string_view::npos && reason == std::errc{} && action.index >= 0;
    if (good && rest != last) {
      const auto chunk = std::from_chars(rest + 1, last, action.chunk);
      good = *rest == '.' && chunk.ec == std::errc{} && chunk.ptr == last && action.chunk >= 0;
    }
    if (!good) fail(ErrorCode::kMalformed, "action {} \"{}\" is not one of F3, E3, G3, U3, V3 or, chunked, F3.1", actions.size(), word);
    action.kind = static_cast<ActionKind>(kind);
    actions.push_back(action);
  }
}

int64_t forward_version(const ScheduleSpec& spec, int64_t s) {
  if (drains(spec.alignment)) return s / spec.micro_batches;
  return std::max<int64_t>(0, s - spec.window + 1) / spec.micro_batches;
}

int64_t error_version(const ScheduleSpec& spec, int64_t s) {
  return spec.alignment == Alignment::kStash ? forward_version(spec, s) : s / spec.micro_batches;
}

int64_t versions_held(const ScheduleSpec& spec) {
  if (spec.alignment != Alignment::kStash) return 1;
  return (spec.window - 1 + spec.micro_batches - 1) / spec.micro_batches + 1;
}

std::vector<Action> actions_of(const ScheduleSpec& spec) {
  check_spec(spec);
  ActionList list(spec);
  const int64_t n = spec.micro_batches;
  if (drains(spec.alignment)) {
    for (int64_t mini_batch = 0; mini_batch < spec.mini_batches; ++mini_batch) {
      append_drained(spec, mini_batch, list);
      list.update(mini_batch);
    }
    return list.take();
  }
  const int64_t total = n * spec.mini_batches;
  for (int64_t s = 0; s < std::min(spec.window, total); ++s) list.forward(s);
  for (int64_t s = 0; s < total; ++s) {
    list.error_back(s);
    list.gradient(s);
    if ((s + 1) % n == 0) list.update(s / n);
    if (s + spec.window < total) list.forward(s + spec.window);
  }
  return list.take();
}

int64_t parameter_passes(std::span<const Action> actions, bool alone) {
  int64_t passes = 0;
  // An E opens a pass that the F of the same version right after it (a G may stand between) joins.
  bool open = false;
  int64_t open_version = 0;
  const Action* previous = nullptr;  // the last F or E, to count the chunks of one micro-batch once
  for (const Action& action : actions) {
    switch (action.kind) {
      case ActionKind::kParameterGradient: break;
      case ActionKind::kUpdate: open = false; break;
      case ActionKind::kErrorBack:
        if (previous != nullptr && same_micro_batch_kind(*previous, action)) break;
        ++passes;
        open = !alone;
        open_version = action.version;
        previous = &action;
        break;
      case ActionKind::kForward:
        if (previous != nullptr && same_micro_batch_kind(*previous, action)) break;
        if (!open || open_version != action.version) ++passes;
        open = false;
        previous = &action;
        break;
      case ActionKind::kValidate:
        ++passes;
        open = false;
        break;
    }
  }
  return passes;
}

int64_t parameter_passes(const ScheduleSpec& spec) { return parameter_passes(actions_of(spec), spec.loads_every_pass); }

namespace {

// Far enough in, every mini-batch takes as many passes as the one before it.
int64_t counted_passes(const ScheduleSpec& spec) {
  ScheduleSpec steady = spec;
  steady.evaluate_after.clear();
  steady.mini_batches = versions_held(spec) + 3;
  const int64_t fewer = parameter_passes(steady);
  ++steady.mini_batches;
  return parameter_passes(steady) - fewer;
}

}  // namespace

int64_t parameter_passes_per_mini_batch(const ScheduleSpec& spec) {
  // Away from both ends of a mini-batch each micro-batch more takes as many passes as the one before it: long mini-batches are
  // counted on shorter ones. A window that holds a whole mini-batch shrinks with it.
  const bool whole = spec.window >= spec.micro_batches;
  const int64_t enough = whole ? 8 : 2 * std::max(spec.window, spec.ring_window) + 8;
  if (spec.micro_batches <= enough + 1) return counted_passes(spec);
  const auto shorter = [&](int64_t micro_batches) {
    ScheduleSpec one = spec;
    one.micro_batches = micro_batches;
    if (whole) one.window = spec.window - spec.micro_batches + micro_batches;
    one.ring_window = std::min(one.ring_window, micro_batches + 1);
    return counted_passes(one);
  };
  const int64_t passes = shorter(enough);
  return passes + (spec.micro_batches - enough) * (shorter(enough + 1) - passes);
}

std::vector<int64_t> default_windows(int64_t devices, Alignment alignment, int64_t micro_batches) {
  std::vector<int64_t> windows;
  for (int64_t device = 0; device < devices; ++device) {
    switch (alignment) {
      case Alignment::kFlush: windows.push_back(micro_batches); break;
      case Alignment::kOneForwardOneBackward:
      case Alignment::kZeroBubble: windows.push_back(std::min(devices - device, micro_batches)); break;
      case Alignment::kFpdeep:
      case Alignment::kStash: windows.push_back(std::min(devices - device, micro_batches + 1)); break;
    }
  }
  return windows;
}

ScheduleSpec schedule_spec(const Plan& plan, int64_t device, int64_t mini_batches) {
  ScheduleSpec spec;
  spec.alignment = plan.alignment;
  spec.micro_batches = plan.micro_batches();
  spec.window = item(plan.windows, device);
  spec.ring_window = plan.windows.empty() ? 0 : *std::max_element(plan.windows.begin(), plan.windows.end());
  spec.mini_batches = mini_batches;
  spec.chunks = static_cast<int32_t>(plan.time_chunks);
  spec.loads_every_pass = loads_every_pass(plan, device);
  return spec;
}

namespace {

// The state of the symbolic run: which actions are done, per device.
class ScheduleRun {
 public:
  ScheduleRun(std::span<const std::vector<Action>> lists, std::span<const int64_t> credits)
      : lists_(lists), credits_(credits), next_(lists.size(), 0), done_(lists.size()), waiting_forward_(lists.size(), 0) {}

  void run() {
    check_pairing();
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t device = 0; device < lists_.size(); ++device)
        while (next_[device] < lists_[device].size() && obstacle(device).empty()) {
          finish(device);
          moved = true;
        }
    }
    std::string stuck;
    for (size_t device = 0; device < lists_.size(); ++device)
      if (next_[device] < lists_[device].size())
        stuck += fmt::format("{}device {} at {}: {}", stuck.empty() ? "" : "; ", device, text_of(current(device)), obstacle(device));
    if (!stuck.empty()) fail(ErrorCode::kStandstill, "the schedule deadlocks: {}", stuck);
  }

 private:
  // Evaluations repeat their indices: there the version tells them apart.
  using Key = std::tuple<ActionKind, int64_t, int32_t, int64_t>;
  static Key key(const Action& action) {
    return {action.kind, action.index, action.chunk, action.kind == ActionKind::kValidate ? action.version : 0};
  }
  const Action& current(size_t device) const { return lists_[device][next_[device]]; }
  bool done(size_t device, ActionKind kind, const Action& like) const {
    return done_[device].contains({kind, like.index, like.chunk, kind == ActionKind::kValidate ? like.version : 0});
  }

  // Every forward that leaves a device is received by the next one, in the same order, and every error likewise.
  void check_pairing() const {
    for (size_t device = 0; device + 1 < lists_.size(); ++device)
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kErrorBack, ActionKind::kValidate}) {
        const std::vector<Action> here = of_kind(device, kind);
        const std::vector<Action> there = of_kind(device + 1, kind);
        const auto same = [](const Action& a, const Action& b) { return key(a) == key(b); };
        const auto [mine, theirs] = std::mismatch(here.begin(), here.end(), there.begin(), there.end(), same);
        if (mine == here.end() && theirs == there.end()) continue;
        fail(ErrorCode::kMismatch, "devices {} and {} do not pair: device {} has {} where device {} has {}", device, device + 1, device,
             mine == here.end() ? "nothing" : text_of(*mine), device + 1, theirs == there.end() ? "nothing" : text_of(*theirs));
      }
  }
  std::vector<Action> of_kind(size_t device, ActionKind kind) const {
    std::vector<Action> found;
    for (const Action& action : lists_[device])
      if (action.kind == kind) found.push_back(action);
    return found;
  }

  // What the device's next action waits for; empty when it can run.
  std::string obstacle(size_t device) const {
    const Action& action = current(device);
    switch (action.kind) {
      case ActionKind::kForward:
        if (device > 0 && !done(device - 1, ActionKind::kForward, action))
          return fmt::format("waits for {} of device {}", text_of(action), device - 1);
        if (device < credits_.size() && credits_[device] > 0 && device + 1 < lists_.size() && waiting_forward_[device] >= credits_[device])
          return fmt::format("waits for device {} to take one of {} messages", device + 1, waiting_forward_[device]);
        return "";
      case ActionKind::kErrorBack:
        if (!done(device, ActionKind::kForward, action)) return fmt::format("its own F{} has not run", action.index);
        if (device + 1 < lists_.size() && !done(device + 1, ActionKind::kErrorBack, action))
          return fmt::format("waits for {} of device {}", text_of(action), device + 1);
        return "";
      case ActionKind::kParameterGradient:
        return done(device, ActionKind::kErrorBack, action) ? "" : fmt::format("its own E{} has not run", action.index);
      case ActionKind::kUpdate: return "";
      case ActionKind::kValidate:
        if (device > 0 && !done(device - 1, ActionKind::kValidate, action))
          return fmt::format("waits for {} of device {}", text_of(action), device - 1);
        return "";
    }
    return "";
  }

  void finish(size_t device) {
    const Action& action = current(device);
    done_[device].insert(key(action));
    ++next_[device];
    if (action.kind != ActionKind::kForward) return;
    ++waiting_forward_[device];
    if (device > 0) --waiting_forward_[device - 1];
  }

  std::span<const std::vector<Action>> lists_;
  std::span<const int64_t> credits_;
  std::vector<size_t> next_;
  std::vector<std::set<Key>> done_;
  std::vector<int64_t> waiting_forward_;
};

}  // namespace

void check_schedule(std::span<const std::vector<Action>> lists, std::span<const int64_t> credits) { ScheduleRun(lists, credits).run(); }

}  // namespace millrace
