#include "fpga/conv_ce/generator/planned_pace.h"

#include <algorithm>

#include "core/base/index.h"
#include "core/plan/off_chip.h"
#include "core/plan/placement.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/outside_fifos.h"

namespace millrace {

double planned_seconds(const Node& node, StreamingUnit unit, const PhaseEngine& engine) {
  const int64_t rows = engine.phase == Phase::kErrorBack ? node.input_shapes[0].height : node.output.height;
  return 1e-12 * static_cast<double>(engine.picoseconds_per_unit) * static_cast<double>(unit == StreamingUnit::kSample ? 1 : rows);
}

bool takes_turns(const Plan& plan, int64_t device) {
  bool some = false;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device) continue;
    for (const PhaseEngine& engine : shard.phases) {
      if (engine.multipliers > 0 || engine.engine == "conv_ce") return false;
      some = true;
    }
  }
  return some;
}

double planned_turns_seconds(const Placement& placement, int64_t device) {
  const Graph& graph = placement.graph();
  double seconds = 0;
  for (const Placement::Piece& piece : placement.on(device)) {
    const Shard& shard = item(placement.plan().shards, piece.shard);
    for (const PhaseEngine& engine : shard.phases) seconds += planned_seconds(graph.node(graph.index_of(shard.layer)), shard.unit, engine);
  }
  return seconds;
}

double planned_clock(const Plan& plan, const std::string& board) {
  for (const DeviceBudget& budget : plan.budgets) {
    if (budget.device != board) continue;
    const auto found = std::ranges::find(budget.amounts, "clock_hz", &NamedAmount::name);
    if (found != budget.amounts.end()) return std::max(found->amount, 0.0);
  }
  return 0;
}

double off_chip_seconds(const DeviceDesign& design, const Placement& placement, double more) {
  const Plan& plan = placement.plan();
  const Graph& graph = placement.graph();
  double bytes = more;
  for (const ShardDesign& shard : design.shards)
    if (shard.streams) bytes += bytes_per_sample(*shard.streams, shard.engine, shard.shape, shard.error_back);
  for (const OutsideFifo& fifo : outside_fifos(design)) bytes += fifo.bytes_per_sample();
  for (const Placement::Piece& piece : placement.on(design.index)) {
    const Shard& planned = item(plan.shards, piece.shard);
    const auto built = std::ranges::find(design.shards, planned.layer, &ShardDesign::layer);
    if (built != design.shards.end() && !built->streams)
      bytes += off_chip_bytes_per_sample(planned, graph.node(graph.index_of(planned.layer)), plan.micro_batch);
  }
  for (const DeviceBudget& budget : plan.budgets)
    if (const double bandwidth = budget.device == design.board ? off_chip_bandwidth(budget.amounts) : 0; bandwidth > 0)
      return bytes / bandwidth;
  return 0;
}

}  // namespace millrace
