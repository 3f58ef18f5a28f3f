#include "fpga/common/generator/resource_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fpga/common/cost/shared_out.h"

namespace millrace {

namespace {

const Shard* planned_shard(const Plan& plan, int64_t device, const std::string& layer) {
  const auto found = std::ranges::find_if(plan.shards, [&](const Shard& shard) { return shard.device == device && shard.layer == layer; });
  return found == plan.shards.end() ? nullptr : &*found;
}

double amount_of(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == name) return amount.amount;
  return 0;
}

BoardAmounts planned_of(const Shard& shard) {
  const auto amount = [&shard](std::string_view name) { return amount_of(shard, name); };
  return {amount("dsp"), amount("bram36") + amount("parameter_bram36"), amount("lut"), amount("ff"),
          amount("uram") + amount("parameter_uram")};
}

BoardAmounts planned_of(const Plan& plan, int64_t device, const std::string& layer) {
  const Shard* shard = planned_shard(plan, device, layer);
  return shard == nullptr ? BoardAmounts{} : planned_of(*shard);
}

std::vector<ModuleUse> sums_by_layer(const HardwareUse& device) {
  std::vector<ModuleUse> sums;
  for (const std::string& layer : device.layers) {
    ModuleUse sum{.layer = layer, .module = "all"};
    for (const ModuleUse& use : device.modules)
      if (use.layer == layer) sum += use;
    sums.push_back(std::move(sum));
  }
  return sums;
}

}  // namespace

BoardAmounts planned_amounts(const Plan& plan, int64_t device) {
  BoardAmounts sum;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device) continue;
    const BoardAmounts own = planned_of(shard);
    sum.dsp += own.dsp;
    sum.bram36 += own.bram36;
    sum.luts += own.luts;
    sum.flip_flops += own.flip_flops;
    sum.urams += own.urams;
  }
  return sum;
}

BoardAmounts board_capacity(const Plan& plan, const std::string& board) {
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

BoardAmounts built_amounts(const HardwareUse& device) {
  ModuleUse total;
  for (const ModuleUse& use : device.modules) total += use;
  return {total.dsp, total.bram18 / 2, total.luts, total.flip_flops, total.urams};
}

ModuleUse& operator+=(ModuleUse& sum, const ModuleUse& use) {
  sum.dsp += use.dsp;
  sum.bram18 += use.bram18;
  sum.luts += use.luts;
  sum.flip_flops += use.flip_flops;
  sum.urams += use.urams;
  return sum;
}

ModuleUse memory_use(const std::string& layer, const std::string& module, const MemoryShape& memory, int64_t ultra_bits) {
  ModuleUse use{.layer = layer, .module = module};
  if (memory.depth <= kLutramDepth) {
    use.luts = lutram_luts(memory.depth, static_cast<double>(memory.width * memory.banks * (memory.two_ports ? 2 : 1)));
    return use;
  }
  const PackedBlocks blocks = blocks_of(memory, ultra_bits);
  use.bram18 = 2 * blocks.bram36;
  use.urams = blocks.urams;
  return use;
}

std::string what_does_not_fit(const HardwareUse& device, const Plan& plan) {
  const BoardAmounts capacity = board_capacity(plan, device.board);
  ModuleUse total;
  for (const ModuleUse& use : device.modules) total += use;
  std::string text;
  const auto compare = [&text](std::string_view name, double wanted, double there) {
    if (there > 0 && wanted > there) text += fmt::format("{}{:.0f} {} of {:.0f}", text.empty() ? "" : ", ", wanted, name, there);
  };
  compare("DSP slices", total.dsp, capacity.dsp);
  compare("BRAM36", total.bram18 / 2, capacity.bram36);
  compare("UltraRAM", total.urams, capacity.urams);
  compare("LUTs", total.luts, capacity.luts);
  compare("flip-flops", total.flip_flops, capacity.flip_flops);
  return text;
}

std::string resources_json(const HardwareUse& device, const Plan& plan) {
  using json = nlohmann::ordered_json;
  const auto line = [](const ModuleUse& use) {
    return json{{"dsp", use.dsp}, {"bram36", use.bram18 / 2}, {"uram", use.urams}, {"lut", use.luts}, {"ff", use.flip_flops}};
  };
  ModuleUse total;
  json layers = json::array();
  for (const ModuleUse& sum : sums_by_layer(device)) {
    total += sum;
    json modules = json::array();
    for (const ModuleUse& use : device.modules) {
      if (use.layer != sum.layer) continue;
      json module = {{"module", use.module}};
      module.update(line(use));
      modules.push_back(std::move(module));
    }
    const BoardAmounts planned = planned_of(plan, device.index, sum.layer);
    layers.push_back(
        {{"layer", sum.layer},
         {"generated", line(sum)},
         {"planned",
          {{"dsp", planned.dsp}, {"bram36", planned.bram36}, {"uram", planned.urams}, {"lut", planned.luts}, {"ff", planned.flip_flops}}},
         {"modules", modules}});
  }
  const BoardAmounts capacity = board_capacity(plan, device.board);
  const WeightsOnChip& off_chip = device.off_chip;
  const json report = {
      {"device", device.index},
      {"board", device.board},
      {"origin", "dsp and bram36 of the generated modules: modelled as they are built; lut and ff: projected"},
      {"generated", line(total)},
      {"capacity",
       {{"dsp", capacity.dsp}, {"bram36", capacity.bram36}, {"uram", capacity.urams}, {"lut", capacity.luts}, {"ff", capacity.flip_flops}}},
      {"fits", what_does_not_fit(device, plan).empty()},
      {"weights_planned_off_chip",
       {{"layers", off_chip.layers},
        {"planned_bytes", off_chip.off_chip_bytes},
        {"generated_bram36", off_chip.bram36},
        {"streamed", off_chip.streamed},
        {"streamed_bytes_per_sample", off_chip.streamed_bytes_per_sample}}},
      {"layers", layers}};
  return report.dump(1) + "\n";
}

std::string resources_table(const HardwareUse& device, const Plan& plan) {
  std::string text = fmt::format("{:<38} {:>6} {:>8} {:>6} {:>8} {:>8}   (modelled; LUT and FF projected)\n",
                                 "resources, by layer and module", "DSP", "BRAM36", "URAM", "LUT", "FF");
  const auto line = [](const std::string& name, double dsp, double bram36, double urams, double luts, double flip_flops) {
    return fmt::format("{:<38} {:>6.0f} {:>8.1f} {:>6.0f} {:>8.0f} {:>8.0f}\n", name, dsp, bram36, urams, luts, flip_flops);
  };
  ModuleUse total;
  for (const ModuleUse& sum : sums_by_layer(device)) {
    total += sum;
    text += line(sum.layer, sum.dsp, sum.bram18 / 2, sum.urams, sum.luts, sum.flip_flops);
    for (const ModuleUse& use : device.modules)
      if (use.layer == sum.layer) text += line("  " + use.module, use.dsp, use.bram18 / 2, use.urams, use.luts, use.flip_flops);
    const BoardAmounts planned = planned_of(plan, device.index, sum.layer);
    text += line("  the plan reckons with", planned.dsp, planned.bram36, planned.urams, planned.luts, planned.flip_flops);
  }
  text += line("the device", total.dsp, total.bram18 / 2, total.urams, total.luts, total.flip_flops);
  if (const BoardAmounts capacity = board_capacity(plan, device.board); capacity.dsp > 0)
    text += line(fmt::format("of {}", device.board), capacity.dsp, capacity.bram36, capacity.urams, capacity.luts, capacity.flip_flops);
  if (const WeightsOnChip& off_chip = device.off_chip; !off_chip.streamed.empty())
    text += fmt::format("weights and gradients of {} lie in the board's own memory: {:.3g} MB a sample, streamed\n", off_chip.streamed,
                        off_chip.streamed_bytes_per_sample / 1e6);
  if (const WeightsOnChip& off_chip = device.off_chip; !off_chip.layers.empty())
    text += fmt::format(
        "the plan keeps the weights of {} in the board's own memory ({:.1f} MB); generated, they are on the chip: {:.1f} BRAM36\n",
        off_chip.layers, static_cast<double>(off_chip.off_chip_bytes) / 1e6, off_chip.bram36);
  return text;
}

}  // namespace millrace
