#include "fpga/conv_ce/generator/device_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/index.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/generator/device_cycles.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/module_resources.h"

namespace millrace {

namespace {

constexpr const char* kWeights = "parameter_memory (LPRAM)";
constexpr const char* kGradients = "gradient_memory (LGB)";

ModuleUse engine_use(const std::string& layer, const std::string& module, const EngineResources& resources) {
  const FabricUse fabric = engine_fabric({.multipliers = resources.dsp, .phases = 1}, kElementBits);
  return {.layer = layer,
          .module = module,
          .dsp = static_cast<double>(resources.dsp),
          .bram18 = static_cast<double>(resources.bram18),
          .luts = fabric.luts,
          .flip_flops = fabric.flip_flops};
}

ModuleUse sorter_use(const std::string& layer, const std::string& module, int64_t lanes, const SorterMemory& memory) {
  const EngineResources resources = sorter_resources(lanes, memory);
  ModuleUse use{.layer = layer, .module = module, .bram18 = static_cast<double>(resources.bram18)};
  if (resources.bram18 == 0)
    use.luts = lutram_luts(int64_t{1} << (memory.row_banks + memory.address + 1), static_cast<double>(lanes * kElementBits));
  return use;
}

// Beside the memories, what turns a beat to its banks and back: two choices of 2^banks, a level of them per bit.
ModuleUse adapter_use(const std::string& layer, const std::string& module, const AdapterMemory& memory) {
  const int64_t banks = int64_t{1} << memory.banks;
  ModuleUse use = memory_use(layer, module, {kElementBits, int64_t{4} << memory.address, banks});
  use.luts += static_cast<double>(banks * kElementBits * memory.banks);
  return use;
}

// A memory that waits for errors, of the uses that its layer has: on the chip, or what stands there for one outside.
ModuleUse waiting_use(const std::string& layer, const std::string& what, const MemoryShape& memory, int64_t ultra_bits,
                      const OutsideRoom& outside) {
  if (!outside.is_outside()) return memory_use(layer, fmt::format("deep_fifo ({})", what), memory, ultra_bits);
  const FabricUse fabric = outside_fabric(memory.width, outside.beat_bits);
  ModuleUse use{.layer = layer,
                .module = fmt::format("outside_fifo ({})", what),
                .bram18 = static_cast<double>(outside_blocks(outside.beat_bits)),
                .luts = fabric.luts,
                .flip_flops = fabric.flip_flops};
  return use;
}

// In place of the memories of kernels and gradients: beats and words that wait on both sides, what packs and unpacks them, and for PG
// samples that are put side by side.
void add_streamers(const ShardDesign& shard, std::vector<ModuleUse>& uses) {
  const WeightStreams& streams = *shard.streams;
  const int64_t word = shard.engine.kernels_per_word * shard.engine.taps();
  const auto packing = [&](int64_t word_bits) { return packing_luts(word_bits, streams.beat_bits, kElementBits); };
  const auto add = [&](const std::string& module, int64_t word_bits, int64_t waiting_words, bool writes) {
    ModuleUse use = memory_use(shard.layer, module, {streams.beat_bits, kStreamedBeats});
    use.luts += packing(word_bits);
    use.flip_flops += static_cast<double>(2 * word_bits + streams.beat_bits);
    if (waiting_words > 0) use += memory_use(shard.layer, "", {word_bits, waiting_words, writes ? 2 : 1});
    if (writes) {
      use += memory_use(shard.layer, "", {streams.beat_bits, kWrittenBeats});
      use.luts += packing(word_bits);
      use.flip_flops += static_cast<double>(word_bits + streams.beat_bits);
    }
    uses.push_back(use);
  };
  add("parameter_streamer (FP)", word * kElementBits, 0, false);
  if (shard.error_back) add("parameter_streamer (EB)", word * kElementBits, 0, false);
  add("gradient_streamer (PG)", word * kAccumulatorBits, 4 * shard.engine.load_words() + 4, true);
  const int64_t samples = shard.gradient_samples();
  if (samples == 1) return;
  const ConvolutionShape& s = shard.shape;
  uses.push_back(
      memory_use(shard.layer, "permuting_buffer (activations side by side)",
                 {shard.engine.input_lanes * kElementBits, 2 * samples * shard.engine.groups_of_inputs(s.inputs) * s.height * s.width}));
  uses.push_back(memory_use(shard.layer, "permuting_buffer (errors side by side)",
                            {shard.engine.output_lanes * kElementBits, 2 * samples * shard.engine.groups_of_outputs(s.outputs)}));
}

// What follows a sum, or a join.
void add_after_sum(const DeviceDesign& design, const ShardDesign& shard, std::vector<ModuleUse>& uses) {
  const std::string& layer = shard.layer;
  const int64_t beat_bits = design.lanes * kElementBits;
  const EngineMemories pool = pooling_memories(shard);
  ModuleUse special{.layer = layer, .module = "special_function_unit"};
  const EngineParallelism window = pooling_parallelism(shard);
  const EngineResources pooling = shard.pooled ? pooling_resources(window, pool, shard.window) : EngineResources{};
  const int64_t leaks = shard.slope == 0 ? 0 : design.lanes;
  special.dsp = static_cast<double>((shard.is_tail ? 0 : design.lanes) + pooling.dsp + leaks);  // a scale per lane, and a slope
  const FabricUse fabric = special_function_fabric(0, kElementBits);
  special.luts = fabric.luts + 2 * lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(beat_bits));
  special.flip_flops = fabric.flip_flops;
  const bool gathers = shard.window.is_large();
  if (shard.pooled && gathers) {
    special.luts += gathering_luts(design.lanes, pool, shard.window);
    if (shard.window.overlaps()) special += memory_use(layer, "", gathering_memory(design.lanes, pool, shard.window));
  } else if (shard.pooled)
    special += memory_use(layer, "", {beat_bits, int64_t{1} << pool.line_address, int64_t{1} << (pool.row_banks + pool.column_banks)});
  uses.push_back(special);
  const EngineResources unpooling = unpooling_resources(window, pool, shard.window);
  ModuleUse back{.layer = layer, .module = "unpooling_unit"};
  back.dsp = static_cast<double>(unpooling.dsp + leaks);  // behind an average, of the gate
  back.bram18 = static_cast<double>(unpooling.bram18);
  if (gathers) back.luts = spreading_luts(design.lanes, pool, shard.window);
  uses.push_back(back);
  if (!shard.window.average)
    uses.push_back(waiting_use(layer, "winners", shard.winner_memory(), shard.ultra.winners, shard.winners_outside));
  if (shard.masks_errors()) uses.push_back(memory_use(layer, "deep_fifo (ReLU's mask)", {design.lanes, shard.mask_beats}));
  const auto kept = [&](const char* what) { return waiting_use(layer, what, shard.norm_memory(), shard.ultra.norm, shard.norm_outside); };
  if (shard.running) {
    constexpr int64_t kConstantBits = 3 * kElementBits + 32, kSumBits = 4 * 64;
    ModuleUse norm{.layer = layer, .module = "running_norm_back"};
    norm.dsp = static_cast<double>(running_norm_resources(design.lanes).dsp);
    norm.luts = lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(design.lanes * (kConstantBits + kSumBits))) +
                static_cast<double>(design.lanes * kSumBits);
    norm.flip_flops = static_cast<double>(design.lanes * (kConstantBits + kSumBits));
    uses.push_back(norm);
    uses.push_back(kept("what the norm is given"));
  } else if (shard.normalised) {
    ModuleUse scaler{.layer = layer, .module = "error_scaler"};
    scaler.dsp = static_cast<double>(design.lanes);
    scaler.luts = lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(beat_bits));
    uses.push_back(scaler);
  }
  if (shard.response) {
    const FixedResponseNorm& norm = *shard.response;
    const int64_t copies = 2 * divided_up(norm.half, design.lanes) + 1;
    constexpr int64_t kEntryBits = 32, kTermBits = 80;  // of p and q; u, the error's product and x
    const auto add = [&](const std::string& module, const EngineResources& products, int64_t copied_bits) {
      ModuleUse use{.layer = layer, .module = module};
      use.dsp = static_cast<double>(products.dsp);
      use += memory_use(layer, "", {copied_bits, int64_t{1} << shard.response_address(), copies});
      use += memory_use(layer, "", {kEntryBits, static_cast<int64_t>(std::bit_ceil(norm.p.size())), design.lanes});
      uses.push_back(use);
    };
    add("response_norm", response_norm_resources(design.lanes, norm.half), beat_bits);
    add("response_norm_back", response_norm_back_resources(design.lanes, norm.half), beat_bits + design.lanes * kTermBits);
    uses.push_back(kept("what the norm is given"));
  }
  if (shard.smooth) {
    constexpr int64_t kEntryBits = 32;
    ModuleUse use{.layer = layer, .module = "smooth_activation (forward, back)"};
    use.dsp = static_cast<double>(smooth_activation_resources(design.lanes).dsp);
    use += memory_use(layer, "", {kEntryBits, static_cast<int64_t>(SmoothActivation::kEntries), design.lanes});
    uses.push_back(use);
    uses.push_back(kept("what the activation gave"));
  }
  if (shard.dropout) {
    // The blocks that lanes remember with their numbers, the mini-batch's first blocks; the generator's words, keys and products.
    constexpr int64_t kBlockBits = 128 + 30, kGeneratorBits = 4 * 32 + 2 * 32 + 2 * 64 + 128;
    ModuleUse dropout{.layer = layer, .module = "dropout_unit (forward, back)"};
    dropout.dsp = 2 * static_cast<double>(dropout_resources().dsp);
    dropout.luts = 2 * (lutram_luts(design.lanes, kBlockBits) + lutram_luts(design.mini_batch, 64) + kGeneratorBits);
    dropout.flip_flops = 2 * (kGeneratorBits + 2 * static_cast<double>(beat_bits));
    uses.push_back(dropout);
  }
  if (shard.sums_all_biases()) {
    ModuleUse biases{.layer = layer, .module = "bias_gradient"};
    biases.luts = lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(design.lanes * kAccumulatorBits));
    uses.push_back(biases);
  }
  if (shard.sorts_unpooled()) uses.push_back(sorter_use(layer, "row_sorter (un-pooled rows)", design.lanes, shard.unpooled_sorter()));
}

// Forks, sums and what waits, of maps and joins.
void add_maps(const DeviceDesign& design, std::vector<ModuleUse>& uses) {
  const int64_t beat_bits = design.lanes * kElementBits;
  const auto wires = static_cast<double>(beat_bits);
  const auto room = [&](const std::string& layer, const std::string& module, int64_t beats, int64_t ultra_bits) {
    if (beats > 0) uses.push_back(memory_use(layer, module, {beat_bits, beats}, ultra_bits));
  };
  for (const MapDesign& map : design.maps) {
    for (const MapReader& reader : map.readers) {
      room(map.layer, reader.next ? "deep_fifo (passes on)" : "deep_fifo (waits for a join)", reader.waiting_beats, reader.ultra_waiting);
      room(map.layer, "deep_fifo (errors that wait)", reader.error_beats, reader.ultra_errors);
    }
    const auto more = static_cast<double>(map.readers.size() - 1);
    if (more > 0)
      uses.push_back({.layer = map.layer,
                      .module = "map_fork, map_adder",
                      .luts = kForkLuts + more * map_adder_luts(design.lanes, 0),
                      .flip_flops = kForkFlipFlops + more * kAdderFlipFlops});
  }
  for (const JoinDesign& join : design.joins) {
    const auto adders = static_cast<double>(join.operands.size() - 1);
    ModuleUse use{.layer = join.layer,
                  .module = join.concatenates ? "map_adder, map_fork, channel_aligner" : "map_adder, map_fork",
                  .luts = kForkLuts,
                  .flip_flops = kForkFlipFlops + adders * kAdderFlipFlops};
    for (size_t operand = 1; operand < join.operands.size(); ++operand)
      use.luts += map_adder_luts(design.lanes, join.bits_of_sum(operand - 1) - kElementBits);
    for (size_t operand = 0; operand < join.operands.size(); ++operand)
      if (needs_aligning(join, operand, design.lanes))  // there and back, a row of beats each and a turn of lanes
        use.luts += 2 * (lutram_luts(design.maps[join.operands[operand]].width, wires) + wires);
    uses.push_back(use);
  }
}

bool joins(const Node& node) {
  return std::holds_alternative<Add>(node.layer.operation) || std::holds_alternative<Concat>(node.layer.operation);
}

// Readers of such a map may be on several devices, on each of which errors of some wait for others.
bool parts_widely(const Graph& graph, int64_t map) { return graph.node(map).consumers.size() > 2; }

// With the group of one of a map's readers. Of two readers the shorter way waits, with the first of them. Of more each may, with itself,
// and with the first what joins send back; where a cut parts two ways of one length, the devices before it need one more.
int64_t errors_that_wait(const Graph& graph, int64_t map, int64_t reader) {
  const std::vector<int64_t>& readers = graph.node(map).consumers;
  if (!parts_widely(graph, map)) return readers.front() == reader ? std::ssize(readers) - 1 : 0;
  const auto is_head = [&](int64_t node) { return item(graph.groups(), graph.node(node).group).head == node; };
  const auto first = std::ranges::find_if(readers, is_head);
  if (*first != reader) return 1;
  return 1 + std::ranges::count_if(readers, [&](int64_t node) { return joins(graph.node(node)); });
}

// The layer alone, whole, with what follows it.
MemoriesAfterSum memories_of_whole(const Graph& graph, const LayerGroup& group, int64_t lanes, bool outputs_divided) {
  const Node& head = graph.node(group.head);
  const std::optional<ConvolutionShape> shape = layer_shape(graph, head);
  MemoriesAfterSum memories;
  if (!shape) return memories;
  DeviceDesign design;
  design.lanes = lanes;
  ShardDesign whole;
  whole.layer = head.layer.name;
  whole.lanes = lanes;
  whole.shape = *shape;
  whole.layer_inputs = whole.passed_begin = shape->inputs;
  whole.layer_outputs = shape->outputs;
  whole.inputs = {0, shape->inputs};
  whole.outputs = {0, shape->outputs};
  whole.outputs_divided = outputs_divided;
  whole.formats = millrace::formats_of(LayerFormats{}, whole.layer, 1);
  design.shards.push_back(std::move(whole));
  Group planned;
  planned.layer = head.layer.name;
  for (const int64_t after : group.after) planned.after.push_back(graph.node(after).layer.name);
  StationNodes nodes{.stations = {{StationKind::kShard, 0}}, .inputs = {{head.inputs[0]}}, .output = {-1}};
  add_layers_after(design, 0, planned, graph, nodes);
  memories.error_block_rows = std::max(design.shards[0].error_block_rows(), design.shards[0].error_first_block_rows());
  for (size_t i = 0; i < design.units(); ++i) {
    ShardDesign& unit = i == 0 ? design.shards[0] : design.tails[i - 1];
    give_room(unit);
    memories.dropout_cycles = std::max(memories.dropout_cycles, cycles_of_dropout(unit));
    std::vector<ModuleUse> uses;
    add_after_sum(design, unit, uses);
    double blocks = 0;
    for (const ModuleUse& use : uses) blocks += use.bram18;
    const auto large = [&](const MemoryShape& memory) {
      if (bram18_of(memory) == 0) return;
      blocks -= static_cast<double>(bram18_of(memory));
      memories.large.push_back(memory);
    };
    if (!unit.window.average) large(unit.winner_memory());
    for (int64_t memory = 0; memory < unit.norm_memories(); ++memory) large(unit.norm_memory());
    memories.bram18 += static_cast<int64_t>(blocks);
  }
  const auto waiting = [&](const Shape& map) {
    return MemoryShape{lanes * kElementBits, std::max<int64_t>(divided_up(map.channels, lanes) * map.plane(), 4)};
  };
  // The shorter ways wait for the longest: maps where they are joined, and errors where they part.
  if (const int64_t before = head.inputs[0]; before != kNetworkInput)
    memories.before.assign(to_size(errors_that_wait(graph, before, group.head)), waiting(graph.node(before).output));
  for (const int64_t after : group.after) {
    const Node& node = graph.node(after);
    const int64_t before = node.inputs[0];
    if (before != kNetworkInput && !joins(node) && parts_widely(graph, before))
      memories.large.push_back(waiting(graph.node(before).output));
  }
  for (const int64_t after : group.after) {
    const Node& node = graph.node(after);
    if (!joins(node)) continue;
    for (size_t operand = 0; operand + 1 < node.input_shapes.size(); ++operand)
      memories.large.push_back(waiting(node.input_shapes[operand]));
  }
  return memories;
}

}  // namespace

MemoriesAfterSum memories_after_sum(const Graph& graph, const LayerGroup& group, int64_t lanes) {
  MemoriesAfterSum together = memories_of_whole(graph, group, lanes, false);
  const MemoriesAfterSum by_outputs = memories_of_whole(graph, group, lanes, true);
  together.bram18 = std::max(together.bram18, by_outputs.bram18);
  return together;
}

std::vector<ModuleUse> device_resources(const DeviceDesign& design) {
  std::vector<ModuleUse> uses;
  for (const ShardDesign& shard : design.shards) {
    const std::string& layer = shard.layer;
    const EngineMemories& m = shard.memories;
    if (shard.adapts_inputs()) uses.push_back(adapter_use(layer, "lane_adapter (activations)", shard.input_adapter()));
    uses.push_back(waiting_use(layer, "Act-RAM", shard.act_ram_memory(), shard.ultra.act_ram, shard.act_ram_outside));
    if (shard.streams)
      add_streamers(shard, uses);
    else
      uses.push_back(memory_use(layer, kWeights, shard.parameter_memory(), shard.ultra.parameters));
    uses.push_back(engine_use(layer, "forward_engine (FP)", forward_resources(shard.engine, m)));
    if (shard.adapts_outputs()) {
      if (!shard.first && !shard.outputs_divided) uses.push_back(adapter_use(layer, "lane_adapter (partial sums)", shard.sum_adapter()));
      uses.push_back(adapter_use(layer, "lane_adapter (sums)", shard.sum_adapter()));
      uses.push_back(adapter_use(layer, "lane_adapter (errors)", shard.error_adapter()));
    }
    if (shard.owner) add_after_sum(design, shard, uses);
    if (!shard.streams) uses.push_back(memory_use(layer, kGradients, shard.gradient_memory(), shard.ultra.gradients));
    uses.push_back(engine_use(layer, "gradient_engine (PG)", gradient_resources(shard.engine, shard.gradient_memories)));
    if (shard.error_back) uses.push_back(engine_use(layer, "error_back_engine (EB)", error_back_resources(shard.engine, m)));
    if (shard.sorts_errors()) uses.push_back(sorter_use(layer, "row_sorter (EB's rows)", shard.engine.input_lanes, shard.sorter()));
    if (shard.error_back && shard.adapts_inputs())
      uses.push_back(adapter_use(layer, "lane_adapter (errors of the input)", shard.input_adapter()));
  }
  for (const ShardDesign& tail : design.tails) add_after_sum(design, tail, uses);
  add_maps(design, uses);
  return uses;
}

WeightsOnChip weights_planned_off_chip(const DeviceDesign& design) {
  WeightsOnChip found;
  const std::vector<ModuleUse> uses = device_resources(design);
  for (const ShardDesign& shard : design.shards) {
    if (shard.planned_off_chip_bytes == 0) continue;
    found.off_chip_bytes += shard.planned_off_chip_bytes;
    if (shard.streams) {
      found.streamed += (found.streamed.empty() ? "" : ", ") + shard.layer;
      found.streamed_bytes_per_sample += bytes_per_sample(*shard.streams, shard.engine, shard.shape, shard.error_back);
      continue;
    }
    found.layers += (found.layers.empty() ? "" : ", ") + shard.layer;
    for (const ModuleUse& use : uses)
      if (use.layer == shard.layer && (use.module == kWeights || use.module == kGradients)) found.bram36 += use.bram18 / 2;
  }
  return found;
}

HardwareUse hardware_use(const DeviceDesign& design) {
  HardwareUse use{
      .index = design.index, .board = design.board, .modules = device_resources(design), .off_chip = weights_planned_off_chip(design)};
  for (const ShardDesign& shard : design.shards) use.layers.push_back(shard.layer);
  for (const ModuleUse& module : use.modules)  // of maps, joins and what follows those
    if (std::ranges::find(use.layers, module.layer) == use.layers.end()) use.layers.push_back(module.layer);
  return use;
}

}  // namespace millrace
