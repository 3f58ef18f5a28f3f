#include "deploy/session/ring_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/engine_period.h"
#include "core/plan/placement.h"
#include "deploy/devices/device_registry.h"
#include "deploy/devices/hardware.h"
#include "deploy/session/catalogue_registry.h"
#include "deploy/session/rtl_inference.h"
#include "deploy/session/steps_check.h"
#include "fpga/conv_ce/generator/layers_without_hardware.h"
#include "fpga/conv_ce/generator/planned_pace.h"

namespace millrace {

namespace {

// Another engine than those of an FPGA that the plan has for the device; nothing: there is none.
std::optional<std::string> other_engine(const Plan& plan, int64_t device) {
  for (const Shard& shard : plan.shards)
    for (const PhaseEngine& phase : shard.phases)
      if (shard.device == device && phase.engine != "conv_ce" && phase.engine != "pe_chain" && phase.engine != "sbe") return phase.engine;
  return std::nullopt;
}

bool computes(const Plan& plan, int64_t device) {
  return std::ranges::any_of(plan.shards, [device](const Shard& shard) { return shard.device == device; });
}

bool has_boards(const Plan& plan) {
  for (int64_t device = 0; device < plan.devices(); ++device)
    if (!kind_that_is_no_fpga(plan, device) && computes(plan, device)) return true;
  return false;
}

// Of their pace, where it is worth a word.
constexpr double kLessThanEngines = 0.99;

// All devices of the plan, not checked yet.
RingCheck unchecked(const Plan& plan, const Graph& graph) {
  RingCheck ring;
  const Placement placement(plan, graph);
  for (int64_t index = 0; index < plan.devices(); ++index) {
    CheckedDevice& device = ring.devices.emplace_back();
    device.check.index = index;
    device.check.board = item(plan.cluster.devices, index).device;
    const std::optional<std::string> kind = kind_that_is_no_fpga(plan, index);
    device.counts = !kind && computes(plan, index);
    if (device.counts) continue;
    device.check.reason = kind ? "it is " + *kind : "it computes nothing in this plan";
    if (takes_turns(plan, index)) device.check.planned_seconds = planned_turns_seconds(placement, index);
  }
  return ring;
}

std::vector<int64_t> boards_of(const RingCheck& ring) {
  std::vector<int64_t> boards;
  for (const CheckedDevice& device : ring.devices)
    if (device.counts) boards.push_back(device.check.index);
  return boards;
}

void take(const std::vector<DeviceCheck>& checks, RingCheck& ring) {
  for (const DeviceCheck& check : checks) item(ring.devices, check.index).check = check;
  ring.pace_ratio = pace_ratio(checks);
}

// Engines alone.
RingCheck check_engines_alone(const Plan& plan, const Graph& graph) {
  RingCheck ring = unchecked(plan, graph);
  take(check_devices(plan, graph, boards_of(ring), CheckedRooms::kLeast), ring);
  return ring;
}

}  // namespace

std::optional<std::string> kind_that_is_no_fpga(const Plan& plan, int64_t device) {
  const std::string& name = item(plan.cluster.devices, device).device;
  const std::optional<Hardware> hardware = shipped_hardware(name);
  if (hardware)
    return hardware == Hardware::kFpga ? std::nullopt : std::optional(fmt::format("{}, a device of kind {}", name, name_of(*hardware)));
  const std::optional<std::string> engine = other_engine(plan, device);
  return engine ? std::optional(fmt::format("{}, planned with the engine \"{}\"", name, *engine)) : std::nullopt;
}

int64_t RingCheck::boards() const { return std::ranges::count_if(devices, &CheckedDevice::counts); }
int64_t RingCheck::generated() const {
  return std::ranges::count_if(devices, [](const CheckedDevice& device) { return device.check.generated; });
}
int64_t RingCheck::fitting() const {
  return std::ranges::count_if(devices, [](const CheckedDevice& device) { return device.check.fits(); });
}

RingCheck check_ring(const Plan& plan, const Graph& graph, KnownRooms* known) {
  RingCheck ring = unchecked(plan, graph);
  const TimedRing timed = time_ring(plan, graph, boards_of(ring), known);
  take(timed.boards, ring);
  ring.no_waiting = timed.waiting.reason;
  if (!ring.pace_ratio || !ring.no_waiting.empty()) return ring;
  ring.waits = timed.waiting.waits;
  ring.waiting_pace_ratio = 0;
  if (timed.waiting.stands_still) return ring;
  double planned = 0, built = timed.waiting.seconds;
  for (const CheckedDevice& device : ring.devices) {
    planned = std::max(planned, device.check.planned_seconds);
    // Of words off the chip, which the timing does not have; of what is no board, as planned.
    built = std::max(built, device.counts ? device.check.built_seconds : device.check.planned_seconds);
  }
  ring.waiting_pace_ratio = planned / built;
  if (built > timed.waiting.seconds) ring.waits.reset();
  return ring;
}

RingCheck check_ring_if_possible(const Plan& plan, const Graph& graph, KnownRooms* known) {
  RingCheck ring;
  if (!has_boards(plan)) return ring;
  if (plan.arithmetic.wire != ElementType::kFixed16) {
    ring.refusal = "hardware is generated for 16 bits in fixed point alone";
    return ring;
  }
  try {
    if (plans_steps_on_boards(plan)) {
      const StepsCheck steps = check_steps(plan, graph);
      ring.pace_ratio = steps.pace_ratio;
      const auto missing = std::ranges::find_if(steps.engines, [](const StepsEngine& engine) { return !engine.reason.empty(); });
      if (missing != steps.engines.end())
        ring.refusal = fmt::format("device {}: the steps of layer \"{}\": {}", missing->device, missing->layer, missing->reason);
      return ring;
    }
    if (plan.purpose != Purpose::kInference && plan.devices() > kMostTimed) {
      ring = check_engines_alone(plan, graph);
      ring.timed = false;
      ring.no_waiting = "the ring is too long to be timed while a plan is made";
      return ring;
    }
    if (plan.purpose != Purpose::kInference) return check_ring(plan, graph, known);
    ring.pace_ratio = inference_pace_ratio(plan, graph);
    if (!ring.pace_ratio) ring.refusal = "an engine of this plan for inference is not built";
  } catch (const Error& error) {
    ring.refusal = error.message();
  }
  return ring;
}

std::string cannot_be_built(const Plan& plan, const Graph& graph, const RingCheck& check) {
  if (plan.accounting != Accounting::kFull || plan.purpose == Purpose::kInference || plan.arithmetic.wire != ElementType::kFixed16)
    return "";
  if (!check.refusal.empty() || !streams_rows(graph)) return "";
  for (const CheckedDevice& device : check.devices)
    if (device.counts && !device.check.generated && !can_compute_on(device.check.board))
      return fmt::format(
          "device {} ({}) cannot be built: {}; or keep the layer off such devices with --pin, or divide the network elsewhere "
          "with --cut",
          device.check.index, device.check.board, device.check.reason);
  return "";
}

void check_built_engines(const Plan& plan, const Graph& graph, const std::string& origin) {
  if (engine_period_of(plan) <= 0 || plan.purpose == Purpose::kInference || plan.arithmetic.wire != ElementType::kFixed16) return;
  if (!has_boards(plan)) return;
  try {
    check_engines_alone(plan, graph);
  } catch (const Error& error) {
    // Of a ring without hardware there are figures all the same.
    if (error.code() != ErrorCode::kUnavailable) throw error.within(origin);
  }
}

std::string waiting_text(const RingCheck& check) {
  if (!check.timed && check.pace_ratio)
    return "engines alone: whether such a long ring waits for its memories `millrace rtl --check` tells";
  if (!check.waiting_pace_ratio) return check.pace_ratio && !check.no_waiting.empty() ? "no waiting_pace_ratio: " + check.no_waiting : "";
  if (*check.waiting_pace_ratio == 0)
    return "waiting_pace_ratio 0: the ring stands still" + (check.waits ? "; " + waiting_text(*check.waits) : "");
  std::string why = check.waits ? "; " + waiting_text(*check.waits) : "";
  if (!check.waits && check.pace_ratio && *check.waiting_pace_ratio < kLessThanEngines * *check.pace_ratio)
    why = "; no memory that waits for errors sets it: rows wait between engines";
  return fmt::format("waiting_pace_ratio {:.3f}: the ring's pace with the room of its memories{}", *check.waiting_pace_ratio, why);
}

std::string built_text(const RingCheck& check) {
  if (!check.refusal.empty()) return "no pace_ratio: " + check.refusal;
  if (check.pace_ratio && check.devices.empty())
    return fmt::format("pace_ratio {:.3f}: the generated engines' pace over the plan's", *check.pace_ratio);
  if (check.boards() == 0) return "";
  if (check.pace_ratio)
    return fmt::format("pace_ratio {:.3f}: what rtl generates over the plan; {} of {} boards within their resources", *check.pace_ratio,
                       check.fitting(), check.boards());
  const auto missing =
      std::ranges::find_if(check.devices, [](const CheckedDevice& device) { return device.counts && !device.check.generated; });
  return fmt::format("no pace_ratio: {} of {} boards generated; device {}: {}", check.generated(), check.boards(), missing->check.index,
                     missing->check.reason);
}

}  // namespace millrace
