// Internal to node/simulate: what compiling each device of a block shares: rows of every tensor, schedules by window, streams of
// flows, depths of FIFOs.
#pragma once

#include <map>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/graph/row_needs.h"
#include "core/plan/flow_load.h"
#include "core/plan/segment_program.h"
#include "core/plan/time_chunking.h"
#include "node/simulate/network_builder.h"
#include "node/simulate/simulate.h"

namespace millrace::simulation {

inline constexpr int64_t kPicoseconds = 1'000'000'000'000;  // of a second

// What all stages of a plan come to, whatever the block.
struct PlanPace {
  int64_t period = 0;       // picoseconds per sample of the slowest stage
  bool streams = false;     // some device has engines of its own: messages are rows
  std::vector<bool> turns;  // by device: its shards take turns
};
// Fails with kMismatch on a plan that cannot be simulated, saying why.
PlanPace pace_of(const Plan& plan, const Graph& graph);

// Bits per second of one direction, with its part of a budget for both.
int64_t lane_bits_per_second(const Plan& plan, int64_t link, Direction direction, const std::vector<int64_t>& load);
int64_t units_of_plan(const Node& node, StreamingUnit unit, Phase phase);
// Of the rows of its input alone, where the plan says so.
int64_t act_ram_bits_of_plan(const Shard& shard);
const PhaseEngine* engine_of(const Shard& shard, Phase phase);

struct CompileContext {
  CompileContext(const Plan& plan, const Graph& graph, const SimulationOptions& options, Network& network);

  const Plan& plan;
  const Graph& graph;
  const SimulationOptions& options;
  Network& network;
  NetworkBuilder builder;
  RowCounts rows;
  PlanPace pace;
  const TimeChunking chunking;
  int64_t micro_batches = 0;                    // of the run
  std::vector<std::vector<int64_t>> shards_of;  // by device: of the plan, in order
  std::vector<int32_t> first_station;           // by device from the block's first, and behind the last: before homes add theirs
  std::map<std::pair<int64_t, int64_t>, int32_t> gradient_counts;  // (device, shard or -1): stream of samples or micro-batches done

  bool here(int64_t device) const { return device >= network.first_device && device < network.end_device; }
  const DeviceSchedule& schedule_of(int64_t device) { return item(network.device_schedules, schedule_index(device)); }
  int32_t schedule_index(int64_t device);
  // Of a trainer's, that acts for the device.
  int64_t rank_of(int64_t device) const;
  // Messages of a sample (rows) or of a micro-batch (chunks of time, or all of it at once), of an index into Plan::flows.
  int32_t messages_of(int64_t flow) const;
  // Steps of a sequence whose chunks are the flow's messages; 0: they are rows, or whole.
  int64_t steps_of_chunks(int64_t flow) const;
  int32_t stream_of_flow(int64_t flow) const;
  // The shard whose parameters a home stores, and the parameters of a shard, or of a device (-1), that are stored where they are used.
  int64_t shard_of(const ParameterHome& home) const;
  int64_t parameters_of(int64_t device, int64_t shard) const;
  int32_t local_flow(int64_t flow) const { return item(network.flow_index, flow); }
  int64_t fifo(int32_t stream) const;
  // How far FP may be ahead of EB where scores become errors.
  int64_t samples_ahead() const;

 private:
  std::map<std::tuple<int64_t, bool, bool>, int32_t> schedules_;  // by window, whether engines work side by side, and load every pass
};

// A station that hands what it reads to a flow; its inputs are still to be added.
int32_t add_leaving(CompileContext& context, int64_t device, int64_t plan_flow, int32_t units, int64_t cycles);

void compile_streaming_device(CompileContext& context, const SegmentProgram& program);
void compile_sequential_device(CompileContext& context, const SegmentProgram& program);
// Passes of parameters stored away from their user, gradients back, updates at home; after all devices.
void compile_homes(CompileContext& context);
// Messages of a pass of so many elements.
int32_t chunks_of(int64_t elements, const Plan& plan);

}  // namespace millrace::simulation
