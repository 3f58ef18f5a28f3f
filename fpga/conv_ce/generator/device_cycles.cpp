#include "fpga/conv_ce/generator/device_cycles.h"

#include <algorithm>

#include "core/base/check.h"
#include "fpga/conv_ce/rtl/cycle_model.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

// Samples before the one that counts.
constexpr int64_t kSamplesBefore = 2;

void add_engines(const ShardDesign& shard, std::vector<StageCycles>& stages) {
  stages.push_back({shard.layer, "FP", forward_cycles_of_next(shard.engine, shard.shape, kSamplesBefore)});
  if (shard.error_back) stages.push_back({shard.layer, "EB", error_back_cycles_of_next(shard.engine, shard.shape, kSamplesBefore)});
  stages.push_back({shard.layer, "PG",
                    divided_up(gradient_cycles_of_next(shard.engine, shard.gradient_shape(), kSamplesBefore), shard.gradient_samples())});
}

// Ports to the memory outside, which take a beat per cycle at best.
void add_weight_streams(const ShardDesign& shard, std::vector<StageCycles>& stages) {
  const StreamCycles ports = weight_stream_cycles(*shard.streams, shard.engine, shard.shape);
  stages.push_back({shard.layer, "kernels of FP from outside", ports.forward});
  if (shard.error_back) stages.push_back({shard.layer, "kernels of EB from outside", ports.error_back});
  stages.push_back({shard.layer, "gradients from and to outside", ports.gradient});
}

// Streams regrouped between engines and ring, and rows sorted behind EB.
void add_adapters(const ShardDesign& shard, std::vector<StageCycles>& stages) {
  const ConvolutionShape& s = shard.shape;
  const auto adapter = [&](const std::string& stage, const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory) {
    stages.push_back({shard.layer, stage, adapter_cycles_of_next(in, out_lanes, memory, kSamplesBefore)});
  };
  const BeatOrder inputs{.channels = s.inputs, .height = s.height, .width = s.width, .lanes = shard.lanes};
  const BeatOrder sums{.channels = s.outputs, .height = s.out_height(), .width = s.out_width(), .lanes = shard.lanes};
  const auto of_engine = [](BeatOrder order, int64_t lanes) {
    order.lanes = lanes;
    return order;
  };
  if (shard.adapts_inputs()) {
    adapter("adapter of activations", inputs, shard.engine.input_lanes, shard.input_adapter());
    if (shard.error_back)
      adapter("adapter of input errors", of_engine(inputs, shard.engine.input_lanes), shard.lanes, shard.input_adapter());
  }
  if (shard.adapts_outputs()) {
    adapter("adapter of sums", of_engine(sums, shard.engine.output_lanes), shard.lanes, shard.sum_adapter());
    BeatOrder errors = sums;
    errors.first_block_rows = shard.error_first_block_rows();
    errors.block_rows = shard.error_block_rows();
    adapter("adapter of errors", errors, shard.engine.output_lanes, shard.error_adapter());
  }
  if (shard.sorts_errors()) {
    BeatOrder blocks = of_engine(inputs, shard.engine.input_lanes);
    blocks.block_rows = s.stride_h;
    blocks.first_block_rows = s.stride_h - error_back_steps(s).first_phase;
    stages.push_back({shard.layer, "row sorter", sorter_cycles(blocks, shard.sorter(), 3) - sorter_cycles(blocks, shard.sorter(), 2)});
  }
}

// Of the group's last device.
void add_after_sum(const ShardDesign& shard, std::vector<StageCycles>& stages) {
  if (shard.dropout) stages.push_back({shard.layer, "dropout", cycles_of_dropout(shard)});
  if (!shard.pooled) return;
  const int64_t groups = shard.groups(shard.layer_outputs);
  stages.push_back({shard.layer, "pooling", pooling_cycles(shard.window, groups)});
  stages.push_back({shard.layer, "un-pooling", unpooling_cycles(shard.window, groups)});
}

void add_sums(const ShardDesign& shard, std::vector<StageCycles>& stages) {
  const int64_t out_plane = shard.shape.out_height() * shard.shape.out_width();
  const int64_t sums = shard.outputs_divided ? shard.outputs.end : shard.layer_outputs;
  stages.push_back({shard.layer, "sums", shard.groups(sums) * out_plane});
}

// A beat per cycle.
void add_maps(const DeviceDesign& design, std::vector<StageCycles>& stages) {
  for (const MapDesign& map : design.maps)
    stages.push_back({map.layer, "activations", divided_up(map.channels.size(), design.lanes) * map.height * map.width});
  for (const JoinDesign& join : design.joins)
    for (size_t operand = 0; operand < join.operands.size(); ++operand) {
      const MapDesign& map = design.maps[join.operands[operand]];
      if (needs_aligning(join, operand, design.lanes))
        stages.push_back({join.layer, "aligner", moving_cycles(map.layer_channels, map.height * map.width, design.lanes)});
    }
}

}  // namespace

int64_t cycles_of_dropout(const ShardDesign& unit) {
  if (!unit.dropout) return 0;
  return dropout_cycles(
      {.channels = unit.layer_outputs, .height = unit.window.out_height, .width = unit.window.out_width, .lanes = unit.lanes});
}

std::vector<StageCycles> device_cycles(const DeviceDesign& design) {
  std::vector<StageCycles> stages;
  for (const ShardDesign& shard : design.shards) {
    add_engines(shard, stages);
    if (shard.streams) add_weight_streams(shard, stages);
    add_adapters(shard, stages);
    if (shard.owner) add_after_sum(shard, stages);
    add_sums(shard, stages);
  }
  for (const ShardDesign& tail : design.tails) add_after_sum(tail, stages);
  add_maps(design, stages);
  return stages;
}

StageCycles slowest_stage(const std::vector<StageCycles>& stages) {
  MILLRACE_CHECK(!stages.empty(), "a device without stages");
  return *std::ranges::max_element(stages, {}, &StageCycles::cycles);
}

}  // namespace millrace
