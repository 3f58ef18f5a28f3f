// What the devices of a ring have in common before each is designed: the width of its streams, the period its engines are built for, and
// which channels a shard holds. Internal to fpga/conv_ce.
//
//   const RingPace pace = ring_pace(plan, graph);
//   const HeldChannels held = held_channels(shard, group, node, *layer_shape(graph, node), pace.lanes);
//   const EngineParallelism engine = engine_within(shape, /*error_back=*/true, pace.cycles_of(plan, "vc709"), {.multipliers = 900});
//
// The period is the plan's (core/plan/engine_period.h), or of its slowest engine where it says none. Where the engines of a board need more
// DSP slices than it has, all boards are built for the shortest period, to half a percent, at which every one fits: a faster neighbour
// would wait. Pure functions of the plan; shards that no engine is generated for do not count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/generator/ring_rooms.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

// Whole groups of `lanes`, of a layer of shape `whole`.
HeldChannels held_channels(const Shard& shard, const Group& group, const Node& node, const ConvolutionShape& whole, int64_t lanes);
bool divides_outputs(const Group& group);

struct RingPace {
  int64_t lanes = 1;
  double period_seconds = 0;  // 0: the plan says no times
  RingRooms rooms = {};       // ring_rooms.h; none: as little as there must be

  int64_t cycles_of(const Plan& plan, const std::string& board) const;
};
RingPace ring_pace(const Plan& plan, const Graph& graph);

// What a plan says of an engine.
struct EngineAsPlanned {
  int64_t multipliers = 0;
  // A plan may have taken a larger engine than need be: of weights off chip one whose words are filled better, else one that takes less
  // memory.
  bool may_be_larger = false;
};

// The smallest within `cycles` per sample, or the one planned; of as many multipliers where those are 0.
EngineParallelism engine_within(const ConvolutionShape& shape, bool error_back, int64_t cycles, const EngineAsPlanned& planned);

}  // namespace millrace
