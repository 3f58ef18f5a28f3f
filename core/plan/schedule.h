// What a device does, in order, as data: F3 E2 G2 U0 ... The same list for trainer and simulator.
//
//   ScheduleSpec spec{.alignment = Alignment::kFpdeep, .micro_batches = 8, .window = 3, .mini_batches = 2};
//   for (const Action& action : actions_of(spec)) fmt::print("{} ", text_of(action));
//
// Words: s is the global index of a micro-batch, n the micro-batches of a mini-batch, w the device's window.
//   fpdeep   F_0 .. F_{w-1}; then for each s: E_s G_s [U if (s+1) % n == 0] F_{s+w}
//            version(F_s) = floor(max(0, s-w+1) / n), version(E_s) = floor(s / n); needs w - 1 <= n
//   stash    the same list; E_s uses the version of F_s, so ceil((w-1)/n) + 1 versions are held
//   flush    F_0 .. F_{n-1}, then E_s G_s ascending, U
//   1f1b     as fpdeep inside one mini-batch, drained before U
//   zero-bubble  1f1b with each G delayed behind later E's, so that at most ring_window micro-batches are in flight
// Evaluation: V actions right after the U of the mini-batches asked for; they never drain the pipeline.
// With chunks > 1 (recurrent layers streamed in time) every F, E, G is expanded: F s.0 F s.1 ..., E and G descending.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

enum class ActionKind : uint8_t { kForward, kErrorBack, kParameterGradient, kUpdate, kValidate };  // F E G U V

struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t index = 0;    // micro-batch; for U the mini-batch; for V the evaluation micro-batch
  int32_t chunk = -1;   // -1: not chunked
  int64_t version = 0;  // weights used (F, E, V) or produced (U makes version + 1 out of version)
  bool operator==(const Action&) const = default;
};
std::string text_of(const Action& action);  // "F3", "E2.1", "U0"
// The versions are not part of the text; parse_actions sets them to 0.
std::string text_of(std::span<const Action> actions);
std::vector<Action> parse_actions(std::string_view text);

struct ScheduleSpec {
  Alignment alignment = Alignment::kFlush;
  int64_t micro_batches = 1;  // n
  int64_t window = 1;         // w
  int64_t ring_window = 0;    // the largest window of the ring (zero-bubble); 0: this one
  int64_t mini_batches = 1;   // how many updates
  int32_t chunks = 1;
  std::vector<int64_t> evaluate_after = {};  // mini-batches whose U is followed by an evaluation
  int64_t evaluation_micro_batches = 0;
  bool loads_every_pass = false;  // no E shares its pass with an F: the steps of a recurrent layer, with the parameters of another device
};

// Fails with kUsage when the numbers make no schedule (n < 1, w - 1 > n, ...).
std::vector<Action> actions_of(const ScheduleSpec& spec);

// The version F_s and E_s use, by definition rather than by walking the list.
int64_t forward_version(const ScheduleSpec& spec, int64_t s);
int64_t error_version(const ScheduleSpec& spec, int64_t s);
// Weight versions a device must be able to hold at once.
int64_t versions_held(const ScheduleSpec& spec);

// Passes over remotely stored parameters. One pass serves an E and the F right after it when both use the same
// version; every other E or F takes a pass of its own. `alone`: none is shared.
int64_t parameter_passes(std::span<const Action> actions, bool alone = false);
int64_t parameter_passes(const ScheduleSpec& spec);
// In steady state, per mini-batch.
int64_t parameter_passes_per_mini_batch(const ScheduleSpec& spec);

// Windows per device for a plan: D - d, capped as the alignment demands.
std::vector<int64_t> default_windows(int64_t devices, Alignment alignment, int64_t micro_batches);
ScheduleSpec schedule_spec(const Plan& plan, int64_t device, int64_t mini_batches);

// Runs the lists of all devices symbolically: F_s needs F_s upstream, E_s needs F_s here and E_s downstream, G_s needs
// E_s here, and at most `credits[d]` forward messages may wait before device d+1 (0: unbounded). Fails with kStandstill
// naming the devices and actions that wait for each other, with kMismatch naming the send without a receive.
void check_schedule(std::span<const std::vector<Action>> lists, std::span<const int64_t> credits = {});

}  // namespace millrace
