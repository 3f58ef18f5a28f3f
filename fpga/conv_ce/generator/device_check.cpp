#include "fpga/conv_ce/generator/device_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/device_resources.h"
#include "fpga/conv_ce/generator/outside_fifos.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/conv_ce/generator/ring_engines.h"

namespace millrace {

namespace {

int64_t& of_phase(PhaseMultipliers& multipliers, Phase phase) {
  switch (phase) {
    case Phase::kForward: return multipliers.forward;
    case Phase::kErrorBack: return multipliers.error_back;
    case Phase::kParameterGradient: break;
  }
  return multipliers.gradient;
}

double clock_of(const Plan& plan, const std::string& board) {
  const double clock = planned_clock(plan, board);
  if (clock <= 0)
    fail(ErrorCode::kMismatch, "the plan does not say the clock of {}, so what is built has no pace; plan again, for boards", board);
  return clock;
}

void add_planned(const Placement& placement, DeviceCheck& check) {
  const Graph& graph = placement.graph();
  for (const Placement::Piece& piece : placement.on(check.index)) {
    const Shard& shard = item(placement.plan().shards, piece.shard);
    const Node& node = graph.node(graph.index_of(shard.layer));
    for (const PhaseEngine& engine : shard.phases) {
      of_phase(check.planned, engine.phase) += engine.multipliers;
      check.planned_seconds = std::max(check.planned_seconds, planned_seconds(node, shard.unit, engine));
    }
  }
}

void add_built(const DeviceDesign& design, const Placement& placement, DeviceCheck& check) {
  const Plan& plan = placement.plan();
  for (const ShardDesign& shard : design.shards) {
    const int64_t multipliers = shard.engine.tiles() * shard.engine.taps();
    check.built.forward += multipliers;
    check.built.gradient += multipliers;
    if (shard.error_back) check.built.error_back += multipliers;
  }
  const StageCycles slowest = slowest_stage(device_cycles(design));
  check.built_seconds = static_cast<double>(slowest.cycles) / clock_of(plan, design.board);
  check.slowest = fmt::format("{} of {}", slowest.stage, slowest.layer);
  if (const double seconds = off_chip_seconds(design, placement); seconds > check.built_seconds) {
    check.built_seconds = seconds;
    check.slowest = "words off the chip";
  }
  const HardwareUse use = hardware_use(design);
  check.built_amounts = built_amounts(use);
  check.lacks = what_does_not_fit(use, plan);
  check.off_chip = use.off_chip;
  check.waits = waits_outside(design);
}

DeviceCheck checked(const Placement& placement, int64_t device, const RingPace& pace) {
  const Plan& plan = placement.plan();
  DeviceCheck check;
  check.index = device;
  check.board = item(plan.cluster.devices, device).device;
  add_planned(placement, check);
  check.planned_amounts = planned_amounts(plan, device);
  check.capacity = board_capacity(plan, check.board);
  try {
    add_built(device_design(placement, device, nullptr, {}, pace), placement, check);
    check.generated = true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    check.reason = error.message();
  }
  return check;
}

RingPace pace_with(CheckedRooms rooms, const Placement& placement) {
  RingPace pace = ring_pace(placement.plan(), placement.graph());
  if (rooms == CheckedRooms::kBuilt) pace.rooms = ring_rooms(placement, pace);
  return pace;
}

}  // namespace

DeviceCheck check_device(const Plan& plan, const Graph& graph, int64_t device) {
  return check_devices(plan, graph, std::span(&device, 1)).front();
}

std::vector<DeviceCheck> check_devices(const Plan& plan, const Graph& graph, std::span<const int64_t> devices, CheckedRooms rooms) {
  if (devices.empty()) return {};
  const Placement placement(plan, graph);
  return check_devices(placement, devices, pace_with(rooms, placement));
}

bool all_devices_fit(const Plan& plan, const Graph& graph, std::span<const int64_t> devices, CheckedRooms rooms) {
  if (devices.empty()) return true;
  const Placement placement(plan, graph);
  const RingPace pace = pace_with(rooms, placement);
  return std::ranges::all_of(devices, [&](int64_t device) { return checked(placement, device, pace).fits(); });
}

std::vector<DeviceCheck> check_devices(const Placement& placement, std::span<const int64_t> devices, const RingPace& pace) {
  std::vector<DeviceCheck> checks;
  for (const int64_t device : devices) checks.push_back(checked(placement, device, pace));
  return checks;
}

std::string memories_text(const WaitsOutside& outside) {
  if (outside.memories.empty()) return "";
  const size_t more = outside.memories.size() - 1;
  return outside.memories.front() + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::optional<double> pace_ratio(const std::vector<DeviceCheck>& devices) {
  double planned = 0, built = 0;
  for (const DeviceCheck& device : devices) {
    if (!device.generated) return std::nullopt;
    planned = std::max(planned, device.planned_seconds);
    built = std::max(built, device.built_seconds);
  }
  return built > 0 ? std::optional(planned / built) : std::nullopt;
}

}  // namespace millrace
