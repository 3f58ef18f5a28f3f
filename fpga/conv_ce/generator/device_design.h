// What of a plan becomes hardware on one device: its convolution shards with their engines, memories and weights.
//
//   const DeviceDesign design = device_design(plan, graph, /*device=*/3, weights);
//   for (const ShardDesign& shard : design.shards) fmt::print("{} {} tiles\n", shard.layer, shard.engine.tiles());
//
// All streams of a ring are equally wide: `lanes` channels of one pixel per beat, a power of two up to 16, the narrowest that keep the
// ring's pace. Every shard's engines are a rectangle of lanes of their own, for FP, EB and PG alike: the
// smallest that keeps the period (engine_sizing.h), so the rows of a device take no longer than the plan says; adapters lie between
// both. Where a board has too few DSP slices for that, the whole ring is built for the shortest period that fits (ring_engines.h). Of a
// plan that says no times, an engine is the fastest rectangle within the planned multipliers.
// A layer that is divided by output channels gets the whole input on every device, which passes it on; each appends its sums to
// those of the devices before, and the last one finishes them all and sums the gradients of all biases. Errors of the raw sum go
// upstream row by row, each device keeping those of its own outputs; errors of the input are added up from the last to the first.
// A dense layer is a convolution whose kernel is as large as the map that was flattened.
// Weights that the plan keeps in the board's own memory are streamed from there, once per sample for FP and EB of a dense layer, and once
// per row of a convolution. PG of a dense layer makes the gradients of four micro-batches in a pass, reading and writing each: with two it
// would move the words that the plan counts, and nothing would be left for channels that two boards hold.
// Cuts may fall anywhere. Both neighbours hold the group of lanes that a cut falls into; kernels that are the neighbour's are
// zero, and the errors that both make for it are added, downstream first. A boundary channel is no special case of that.
// Batch norm: a board measures no statistics. A FROZEN batch norm directly behind the sum, whose running statistics are
// constants, is folded into scale and offset per channel; errors go back through the scale, rounded once, and what lies before
// it is trained. Its own weight, bias and statistics stay as the weights have them. One that is trained with RUNNING statistics takes those
// of a version for a mini-batch, keeps the sums it was given, and gathers what the next statistics are made of (running_norm.h). With
// EXACT ones it is refused: train it on CPUs, GPUs or emulated boards, then freeze it.
// An emulated board computes averages and batch norms with the host's arithmetic and rounds their outputs; the hardware's
// reciprocals, scales and offsets are rounded themselves, so what leaves those layers may differ by a step (after_sum.h).
// Every layer has its own fixed-point formats; nothing between two layers converts, so those of a layer's outputs must be those of
// the inputs behind it (kMismatch), which a calibration sees to.
// Fails with kUnavailable, naming the layer and what stands in the way, on what the modules cannot do yet: layers other than
// convolutions and dense ones with bias, batch norm, activation, local response norm, pooling and dropout behind them; strides that
// are not square; kernels with padding of more than half their size. Sums and concatenations of maps, also of those that
// passed layers and devices on their way, are joins (device_maps.h). A kernel that is dilated or not square is built as a larger
// one with zeros (square_kernel.h), which costs the multipliers of the larger one. Channel groups that do not mix take sweeps of their own
// where the whole layer is on one device; lanes then divide the channels of each. Of a layer that is divided, kernels between channels that
// do not mix are zero, which costs as many sweeps as a layer that mixes all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/operation/dropout.h"
#include "core/plan/placement.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"
#include "fpga/conv_ce/arithmetic/fixed_response_norm.h"
#include "fpga/conv_ce/arithmetic/running_norm.h"
#include "fpga/conv_ce/arithmetic/smooth_activation.h"
#include "fpga/conv_ce/generator/device_maps.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/outside_room.h"
#include "fpga/conv_ce/rtl/weight_streams.h"

namespace millrace {

// The full canonical tensor of a layer's parameter: "weight", "bias", of a batch norm also "running_mean" and "running_var".
// Without a source a design has no weights, and serves for what it takes alone.
using WeightSource = std::function<std::vector<double>(const Node& node, const ParameterSpec& parameter)>;

struct RingPace;
struct BoardAmounts;

// How many bits of each memory's words lie in UltraRAM (shared_out.h), of memories of a kind alike.
struct UltraBits {
  int64_t act_ram = 0, parameters = 0, gradients = 0, winners = 0, norm = 0;
  bool operator==(const UltraBits&) const = default;
};

struct ShardDesign {
  std::string layer;
  ChannelRange inputs;       // held here: whole groups of lanes, up to the layer's last channel
  int64_t layer_inputs = 0;  // of the layer; of a dense one, of the map before it
  int64_t passed_begin = 0;  // from here on channels go to the next device too; layer_inputs: there is none
  ChannelRange outputs;      // whose sums are made here: all, unless the layer is divided by outputs
  int64_t layer_outputs = 0;
  bool outputs_divided = false;
  int64_t outputs_before = 0;     // divided by outputs: so many sums come from the devices before
  ConvolutionShape shape;         // with the inputs and outputs held here
  std::optional<BeatOrder> flat;  // the map's beats, where the engine takes them as channels of a single pixel
  EngineParallelism engine;
  EngineMemories memories;
  EngineMemories gradient_memories;  // PG's, whose rows may hold several samples
  EngineFormats formats;
  int64_t lanes = 1;                // channels of a beat of the ring's streams
  int64_t planned_multipliers = 0;  // of FP, as the plan has it; 0: it does not say
  // Weights, gradients and the optimizer's state that the plan keeps in the board's own memory.
  int64_t planned_off_chip_bytes = 0;
  // Weights and gradients lie in the memory outside; nothing: on the chip, as those of channel groups always do.
  std::optional<WeightStreams> streams;
  bool is_tail = false;  // no engine: what follows a join, device_maps.h
  bool first = true;     // of its group: no partial sums come in
  bool owner = true;     // ends the group: bias, ReLU and pooling are done here
  bool error_back = true;
  bool relu = false;
  int16_t slope = 0;  // of a leaky one, after_sum.h
  bool pooled = false;
  bool normalised = false;
  // Trained with running statistics: `norm`, scale and offset are those of a version, which the host sends before every mini-batch.
  bool running = false;
  RunningNorm norm;
  // Behind the ReLU, where there is one, and before the pooling.
  std::optional<FixedResponseNorm> response;
  // In place of a ReLU and a response norm.
  std::optional<SmoothActivation> smooth;
  // Last of what follows the sum.
  std::optional<Dropout> dropout;
  std::string dropout_layer;
  // What the group's last device does after the sum; of one element when it does not pool. Errors of the raw sum come in
  // blocks of its stride.
  PoolingWindow window;
  int64_t act_ram_beats = 0;
  int64_t kept_beats = 0;                 // behind a maximum
  int64_t mask_beats = 0;                 // behind an average
  int64_t sorted_blocks = kSortedBlocks;  // that row sorters hold
  UltraBits ultra;
  // Of the Act-RAM, of what won, and of what a norm and an activation keep.
  OutsideRoom act_ram_outside, winners_outside, norm_outside;
  std::vector<int16_t> weight;  // of the shape, canonical; zero where a neighbour computes
  std::vector<int16_t> scale;   // per output, of scale_shift fraction bits; one where nothing is normalised
  std::vector<int16_t> bias;    // what is added then, of the sum's fraction bits
  int scale_shift = 0;

  // What waits, empty where it lies outside, and what FP, EB and PG read; those of the parameters are of no use where they are streamed.
  MemoryShape act_ram_memory() const { return {engine.input_lanes * kElementBits, act_ram_outside.is_outside() ? 0 : act_ram_beats}; }
  MemoryShape parameter_memory() const { return millrace::parameter_memory(engine, shape, error_back); }
  MemoryShape gradient_memory() const { return millrace::gradient_memory(engine, shape); }
  // Without a window it is known which element won.
  MemoryShape winner_memory() const {
    return {lanes * (pooled ? window.place_bits() + 1 : 1), winners_outside.is_outside() ? 0 : kept_beats};
  }
  MemoryShape norm_memory() const { return {lanes * kElementBits, norm_outside.is_outside() ? 0 : mask_beats}; }
  int64_t word_elements() const { return engine.kernels_per_word * engine.taps(); }
  int64_t parameter_words() const { return parameter_memory().depth; }

  // Of PG: samples that share a pass over the gradients come side by side.
  int64_t gradient_samples() const { return streams ? streams->gradient_samples : 1; }
  ConvolutionShape gradient_shape() const { return side_by_side(shape, gradient_samples()); }
  // EB through a stride makes its rows in blocks; they leave one by one.
  bool sorts_errors() const { return error_back && engine.stride != 1; }
  SorterMemory sorter() const { return sorter_memory(engine.groups_of_inputs(shape.inputs), shape.width, engine.stride, sorted_blocks); }
  // Between the streams and engines of other lanes.
  bool adapts_inputs() const { return engine.input_lanes != lanes; }
  bool adapts_outputs() const { return engine.output_lanes != lanes; }
  AdapterMemory input_adapter() const { return adapter_memory(lanes, engine.input_lanes, shape.width); }
  AdapterMemory sum_adapter() const { return adapter_memory(lanes, engine.output_lanes, shape.out_width()); }
  AdapterMemory error_adapter() const {
    return adapter_memory(lanes, engine.output_lanes, shape.out_width() * std::max(error_block_rows(), error_first_block_rows()));
  }
  // Something stands between the special-function unit and the pooling, and keeps the whole map until its errors are back.
  bool keeps_values() const { return response || smooth; }
  // Memories of a whole map: of those values, and of a running norm's sums.
  int64_t norm_memories() const { return (running ? 1 : 0) + (keeps_values() ? 1 : 0); }
  // A ReLU that an average hides is undone where the errors are those of the whole map again, row by row.
  bool masks_errors() const { return window.average && relu && !keeps_values(); }
  // So are they where the devices before get a part of every row, and where they are those of a map that others read.
  bool sorts_unpooled() const {
    return (masks_errors() || outputs_divided || keeps_values() || is_tail || running) && window.stride_h != 1 && !window.is_large();
  }
  SorterMemory unpooled_sorter() const { return sorter_memory(groups(layer_outputs), window.width, window.stride_h, sorted_blocks); }
  bool unpools_row_by_row() const { return sorts_unpooled() || window.is_large(); }
  int64_t error_block_rows() const { return unpools_row_by_row() ? 1 : window.stride_h; }
  int64_t error_first_block_rows() const { return unpools_row_by_row() ? 1 : window.stride_h - window.pad_h % window.stride_h; }
  // Elements of a word of what a sum is scaled by: scales and offsets, and of a running norm centres, slopes, levels and both shifts.
  int64_t scale_elements() const { return running ? 6 * lanes + 1 : 2 * lanes; }
  // Of the sums that a running norm gathers: four of 64 bits per lane.
  int64_t gathered_elements() const { return 8 * lanes; }
  // Divided by outputs, and sums come from the devices before.
  // Of the norm's buffers: pixels that wait for their neighbours.
  int response_address() const;
  bool appends_sums() const { return outputs_divided && !first; }
  // Its last device adds the bias to all sums, while PG sees the errors of its own.
  bool sums_all_biases() const { return appends_sums() && owner; }
  int64_t biases() const { return sums_all_biases() ? layer_outputs : shape.outputs; }  // whose gradients are made here
  int64_t bias_lanes() const { return sums_all_biases() ? lanes : engine.output_lanes; }
  // Channels of the raw sum, as the devices before know it.
  int64_t sums_before() const { return outputs_divided ? outputs_before : layer_outputs; }
  // "input channels [0, 8) of 16", or "outputs [8, 16) of 24" where those are divided.
  std::string channels_text() const;
  bool passes_on() const { return passed_begin < layer_inputs; }
  int64_t arriving() const { return layer_inputs - inputs.begin; }                // channels of the stream that comes in
  int64_t passed() const { return layer_inputs - passed_begin; }                  // of that which goes on
  int64_t groups(int64_t channels) const { return divided_up(channels, lanes); }  // of the streams
};

// What waits behind a sum for its errors: a sample, or more where there is memory (ring_rooms.h).
void give_room(ShardDesign& unit);

// A memory of a shard as the host and the memory outside see it: `kind` as in registers.txt.
struct MemoryRegion {
  int64_t shard = 0;
  int64_t kind = 0;
  int64_t words = 0;
  int64_t elements = 0;  // of a word
  int64_t number() const { return shard * 4 + kind; }
  int64_t all_elements() const { return words * elements; }
};

// What of the memory outside is streamed, in bytes from the parameters' address, all multiples of 4096.
struct StreamPlaces {
  int64_t kernels = 0;             // in FP's order
  int64_t error_back_kernels = 0;  // in EB's
  int64_t gradients = 0;
  int64_t end = 0;  // of all so far
};

struct DeviceDesign {
  std::string model;
  std::string board;
  int64_t index = 0;
  int64_t lanes = 1;
  int64_t period_cycles = 0;  // that engines may take for a sample; 0: the plan says no times
  int64_t mini_batch = 1;
  std::vector<ShardDesign> shards;
  std::vector<ShardDesign> tails;
  std::vector<JoinDesign> joins;
  std::vector<Station> stations;  // in the order of the way forward
  std::vector<MapDesign> maps;
  ArithmeticCounters weights_quantised;

  // A mini-batch has a multiple of as many samples.
  int64_t sample_multiple() const;
  std::string module_name() const { return "millrace_device_" + std::to_string(index); }
  // Shards, and behind them tails: the hosts' window numbers their memories so.
  size_t units() const { return shards.size() + tails.size(); }
  const ShardDesign& unit(size_t number) const { return number < shards.size() ? shards[number] : tails[number - shards.size()]; }
  size_t unit_of(const Station& station) const {
    return station.kind == StationKind::kShard ? station.index : shards.size() + station.index;
  }
  // The map that a station reads, and that it makes; null where a shard does not end its group.
  const MapDesign& input_of(const Station& station, size_t operand = 0) const;
  const MapDesign* output_of(const Station& station) const;
};

// Words in front of those of the samples: dropout_unit.sv.
inline constexpr int64_t kDrawWords = 3;

// What comes in before a mini-batch (parameters that are not streamed, then scales and offsets and what dropout draws from, shard by shard)
// and what goes out behind it (gradients, then those of the biases), in the order in which it lies in the memory outside.
std::vector<MemoryRegion> loaded_regions(const DeviceDesign& design);
std::vector<MemoryRegion> stored_regions(const DeviceDesign& design);
int64_t all_elements(const std::vector<MemoryRegion>& regions);
// Of a shard that has streams; behind everything that is loaded.
StreamPlaces stream_places(const DeviceDesign& design, size_t shard);

// Which kind of block every memory is made of, where a board has both, or which bits of its words (shared_out.h).
void share_out_memories(const BoardAmounts& board, DeviceDesign& design);

// Checks that the engine can be what the layer is.
ConvolutionShape buildable_shape(const Graph& graph, const Node& node);
// A flattening of the network's input changes no stream: the dense layer behind it reads the input's own map.
bool passes_input_on(const Graph& graph, const Node& node);

// With the room that the whole ring has to spare (ring_rooms.h). `formats`: of a run that calibrated; of layers that it does not name, the
// engine's own.
DeviceDesign device_design(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                           const LayerFormats& formats = {});
// For whoever designs several devices of a ring, those that compute, and has its pace (ring_engines.h) and who is where.
DeviceDesign device_design(const Placement& placement, int64_t device, const WeightSource& weights, const LayerFormats& formats,
                           const RingPace& pace);

}  // namespace millrace
