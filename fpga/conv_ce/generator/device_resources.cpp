#include "fpga/conv_ce/generator/device_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "fpga/conv_ce/bram_packing.h"
#include "fpga/conv_ce/fabric_costs.h"
#include "fpga/conv_ce/generator/device_top.h"
#include "fpga/conv_ce/rtl/module_resources.h"

namespace millrace {

namespace {

constexpr int64_t kWinnerBits = 5;  // of an output, until its error comes back
constexpr const char* kWeights = "parameter_memory (LPRAM)";
constexpr const char* kGradients = "gradient_memory (LGB)";

// One memory, or several alike, of 2^address_bits words.
ModuleUse memory_use(const std::string& layer, const std::string& module, int64_t width, int address_bits, int64_t banks) {
  const int64_t depth = int64_t{1} << address_bits;
  ModuleUse use{.layer = layer, .module = module};
  if (depth <= kLutramDepth)
    use.luts = lutram_luts(depth, static_cast<double>(width * banks));
  else
    use.bram18 = static_cast<double>(bram18_blocks({.width = width, .depth = depth, .banks = banks}));
  return use;
}

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

int bits_for(int64_t words) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(words, 2) - 1))));
}

ModuleUse& operator+=(ModuleUse& sum, const ModuleUse& use) {
  sum.dsp += use.dsp;
  sum.bram18 += use.bram18;
  sum.luts += use.luts;
  sum.flip_flops += use.flip_flops;
  return sum;
}

const Shard* planned_shard(const Plan& plan, int64_t device, const std::string& layer) {
  const auto found = std::ranges::find_if(plan.shards, [&](const Shard& shard) { return shard.device == device && shard.layer == layer; });
  return found == plan.shards.end() ? nullptr : &*found;
}

double amount_of(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == name) return amount.amount;
  return 0;
}

struct Planned {
  double dsp, bram36, luts, flip_flops, urams;
};

Planned planned_of(const Plan& plan, int64_t device, const std::string& layer) {
  const Shard* shard = planned_shard(plan, device, layer);
  if (shard == nullptr) return {};
  const auto amount = [shard](std::string_view name) { return amount_of(*shard, name); };
  return {amount("dsp"), amount("bram36") + amount("parameter_bram36"), amount("lut"), amount("ff"),
          amount("uram") + amount("parameter_uram")};
}

// What the board has, as far as the plan knows it; zeros: it does not.
Planned capacity_of(const Plan& plan, const std::string& board) {
  for (const DeviceBudget& budget : plan.budgets) {
    if (budget.device != board) continue;
    const auto amount = [&budget](std::string_view name) {
      const auto found = std::ranges::find(budget.amounts, name, &NamedAmount::name);
      return found == budget.amounts.end() ? 0 : found->amount;
    };
    return {amount("dsp_device"), amount("bram36"), amount("lut"), amount("ff"), amount("uram")};
  }
  return {};
}

std::vector<ModuleUse> sums_by_layer(const DeviceDesign& design, const std::vector<ModuleUse>& uses) {
  std::vector<ModuleUse> sums;
  for (const ShardDesign& shard : design.shards) {
    ModuleUse sum{.layer = shard.layer, .module = "all"};
    for (const ModuleUse& use : uses)
      if (use.layer == shard.layer) sum += use;
    sums.push_back(std::move(sum));
  }
  return sums;
}

}  // namespace

std::vector<ModuleUse> device_resources(const DeviceDesign& design) {
  std::vector<ModuleUse> uses;
  const int64_t beat_bits = design.lanes * kElementBits;
  for (const ShardDesign& shard : design.shards) {
    const std::string& layer = shard.layer;
    const EngineMemories& m = shard.memories;
    const int64_t word_elements = shard.engine.kernels_per_word * shard.engine.taps();
    uses.push_back(memory_use(layer, "deep_fifo (Act-RAM)", beat_bits, bits_for(shard.act_ram_beats), 1));
    // Where FP and EB read at once, the memory is there twice.
    uses.push_back(memory_use(layer, kWeights, word_elements * kElementBits, m.parameter_address, shard.error_back ? 2 : 1));
    uses.push_back(engine_use(layer, "forward_engine (FP)", forward_resources(shard.engine, m)));
    if (shard.owner) {
      const EngineMemories pool = pooling_memories(shard);
      ModuleUse special{.layer = layer, .module = "special_function_unit"};
      const EngineParallelism window = pooling_parallelism(shard);
      const EngineResources pooling = shard.pooled ? pooling_resources(window, pool, shard.window.average) : EngineResources{};
      special.dsp = static_cast<double>(design.lanes + pooling.dsp);  // a scale per lane
      const FabricUse fabric = special_function_fabric(0, kElementBits);
      special.luts = fabric.luts + 2 * lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(beat_bits));
      special.flip_flops = fabric.flip_flops;
      if (shard.pooled) special += memory_use(layer, "", beat_bits, pool.line_address, int64_t{1} << (pool.row_banks + pool.column_banks));
      uses.push_back(special);
      const EngineResources unpooling = unpooling_resources(window, pool, shard.window.average);
      ModuleUse back{.layer = layer, .module = "unpooling_unit"};
      back.dsp = static_cast<double>(unpooling.dsp);
      back.bram18 = static_cast<double>(unpooling.bram18);
      uses.push_back(back);
      if (!shard.window.average)
        uses.push_back(memory_use(layer, "deep_fifo (winners)", design.lanes * kWinnerBits, bits_for(shard.kept_beats), 1));
      if (shard.masks_errors()) uses.push_back(memory_use(layer, "deep_fifo (ReLU's mask)", design.lanes, bits_for(shard.mask_beats), 1));
      if (shard.normalised) {
        ModuleUse scaler{.layer = layer, .module = "error_scaler"};
        scaler.dsp = static_cast<double>(design.lanes);
        scaler.luts = lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(beat_bits));
        uses.push_back(scaler);
      }
      if (shard.sums_all_biases()) {
        ModuleUse biases{.layer = layer, .module = "bias_gradient"};
        biases.luts = lutram_luts(int64_t{1} << pool.group_address, static_cast<double>(design.lanes * kAccumulatorBits));
        uses.push_back(biases);
      }
      if (shard.sorts_unpooled()) uses.push_back(sorter_use(layer, "row_sorter (un-pooled rows)", design.lanes, shard.unpooled_sorter()));
    }
    uses.push_back(memory_use(layer, kGradients, word_elements * kAccumulatorBits, m.parameter_address, 1));
    uses.push_back(engine_use(layer, "gradient_engine (PG)", gradient_resources(shard.engine, m)));
    if (shard.error_back) uses.push_back(engine_use(layer, "error_back_engine (EB)", error_back_resources(shard.engine, m)));
    if (shard.sorts_errors()) uses.push_back(sorter_use(layer, "row_sorter (EB's rows)", design.lanes, shard.sorter()));
  }
  return uses;
}

std::string what_does_not_fit(const DeviceDesign& design, const Plan& plan) {
  const Planned capacity = capacity_of(plan, design.board);
  ModuleUse total;
  for (const ModuleUse& use : device_resources(design)) total += use;
  std::string text;
  const auto compare = [&text](std::string_view name, double wanted, double there) {
    if (there > 0 && wanted > there) text += fmt::format("{}{:.0f} {} of {:.0f}", text.empty() ? "" : ", ", wanted, name, there);
  };
  compare("DSP slices", total.dsp, capacity.dsp);
  compare("BRAM36", total.bram18 / 2, capacity.bram36);
  compare("LUTs", total.luts, capacity.luts);
  compare("flip-flops", total.flip_flops, capacity.flip_flops);
  return text;
}

WeightsOnChip weights_planned_off_chip(const DeviceDesign& design) {
  WeightsOnChip found;
  const std::vector<ModuleUse> uses = device_resources(design);
  for (const ShardDesign& shard : design.shards) {
    if (shard.planned_off_chip_bytes == 0) continue;
    found.layers += (found.layers.empty() ? "" : ", ") + shard.layer;
    found.off_chip_bytes += shard.planned_off_chip_bytes;
    for (const ModuleUse& use : uses)
      if (use.layer == shard.layer && (use.module == kWeights || use.module == kGradients)) found.bram36 += use.bram18 / 2;
  }
  return found;
}

std::string resources_json(const DeviceDesign& design, const Plan& plan) {
  using json = nlohmann::ordered_json;
  const auto line = [](const ModuleUse& use) {
    return json{{"dsp", use.dsp}, {"bram36", use.bram18 / 2}, {"uram", 0}, {"lut", use.luts}, {"ff", use.flip_flops}};
  };
  const std::vector<ModuleUse> uses = device_resources(design);
  ModuleUse total;
  json layers = json::array();
  for (const ModuleUse& sum : sums_by_layer(design, uses)) {
    total += sum;
    json modules = json::array();
    for (const ModuleUse& use : uses) {
      if (use.layer != sum.layer) continue;
      json module = {{"module", use.module}};
      module.update(line(use));
      modules.push_back(std::move(module));
    }
    const Planned planned = planned_of(plan, design.index, sum.layer);
    layers.push_back(
        {{"layer", sum.layer},
         {"generated", line(sum)},
         {"planned",
          {{"dsp", planned.dsp}, {"bram36", planned.bram36}, {"uram", planned.urams}, {"lut", planned.luts}, {"ff", planned.flip_flops}}},
         {"modules", modules}});
  }
  const Planned capacity = capacity_of(plan, design.board);
  const WeightsOnChip off_chip = weights_planned_off_chip(design);
  const json report = {
      {"device", design.index},
      {"board", design.board},
      {"origin", "dsp and bram36 of the generated modules: modelled as they are built; lut and ff: projected"},
      {"generated", line(total)},
      {"capacity",
       {{"dsp", capacity.dsp}, {"bram36", capacity.bram36}, {"uram", capacity.urams}, {"lut", capacity.luts}, {"ff", capacity.flip_flops}}},
      {"fits", what_does_not_fit(design, plan).empty()},
      {"weights_planned_off_chip",
       {{"layers", off_chip.layers}, {"planned_bytes", off_chip.off_chip_bytes}, {"generated_bram36", off_chip.bram36}}},
      {"layers", layers}};
  return report.dump(1) + "\n";
}

std::string resources_table(const DeviceDesign& design, const Plan& plan) {
  std::string text = fmt::format("{:<38} {:>6} {:>8} {:>6} {:>8} {:>8}   (modelled; LUT and FF projected)\n",
                                 "resources, by layer and module", "DSP", "BRAM36", "URAM", "LUT", "FF");
  const auto line = [](const std::string& name, double dsp, double bram36, double urams, double luts, double flip_flops) {
    return fmt::format("{:<38} {:>6.0f} {:>8.1f} {:>6.0f} {:>8.0f} {:>8.0f}\n", name, dsp, bram36, urams, luts, flip_flops);
  };
  const std::vector<ModuleUse> uses = device_resources(design);
  ModuleUse total;
  for (const ModuleUse& sum : sums_by_layer(design, uses)) {
    total += sum;
    text += line(sum.layer, sum.dsp, sum.bram18 / 2, 0, sum.luts, sum.flip_flops);
    for (const ModuleUse& use : uses)
      if (use.layer == sum.layer) text += line("  " + use.module, use.dsp, use.bram18 / 2, 0, use.luts, use.flip_flops);
    const Planned planned = planned_of(plan, design.index, sum.layer);
    text += line("  the plan reckons with", planned.dsp, planned.bram36, planned.urams, planned.luts, planned.flip_flops);
  }
  text += line("the device", total.dsp, total.bram18 / 2, 0, total.luts, total.flip_flops);
  if (const Planned capacity = capacity_of(plan, design.board); capacity.dsp > 0)
    text += line(fmt::format("of {}", design.board), capacity.dsp, capacity.bram36, capacity.urams, capacity.luts, capacity.flip_flops);
  if (const WeightsOnChip off_chip = weights_planned_off_chip(design); !off_chip.layers.empty())
    text += fmt::format(
        "the plan keeps the weights of {} in the board's own memory ({:.1f} MB); generated, they are on the chip: {:.1f} BRAM36\n",
        off_chip.layers, static_cast<double>(off_chip.off_chip_bytes) / 1e6, off_chip.bram36);
  return text;
}

}  // namespace millrace
