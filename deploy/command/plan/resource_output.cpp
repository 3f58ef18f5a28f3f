#include "deploy/command/plan/resource_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/index.h"
#include "deploy/command/line/text_table.h"

namespace millrace {

namespace {

struct Amounts {
  double dsp = 0, lut = 0, ff = 0, bram36 = 0, uram = 0;

  Amounts& operator+=(const Amounts& other) {
    dsp += other.dsp;
    lut += other.lut;
    ff += other.ff;
    bram36 += other.bram36;
    uram += other.uram;
    return *this;
  }
  bool nothing() const { return dsp == 0 && lut == 0 && ff == 0 && bram36 == 0 && uram == 0; }
};

struct Module {
  std::string name;
  Amounts amounts;
};
struct LayerUse {
  std::string name;
  std::vector<Module> modules;

  Amounts sum() const {
    Amounts all;
    for (const Module& module : modules) all += module.amounts;
    return all;
  }
};
struct DeviceUse {
  int64_t index = 0;
  std::string device;
  Amounts capacity;
  std::vector<LayerUse> layers;

  Amounts sum() const {
    Amounts all;
    for (const LayerUse& layer : layers) all += layer.sum();
    return all;
  }
};

double amount_of(const std::vector<NamedAmount>& amounts, std::string_view name) {
  for (const NamedAmount& amount : amounts)
    if (amount.name == name) return amount.amount;
  return 0;
}

const DeviceBudget* budget_of(const Plan& plan, const std::string& device) {
  const auto found = std::ranges::find(plan.budgets, device, &DeviceBudget::device);
  return found == plan.budgets.end() ? nullptr : &*found;
}

// Of the parameters that `user`'s shard of the layer computes with, the part that is stored on `home`.
double stored_share(const Plan& plan, const std::string& layer, int64_t user, int64_t home) {
  double all = 0, there = 0;
  for (const ParameterHome& slice : plan.homes) {
    if (slice.layer != layer || slice.user != user || slice.tensor != "weight") continue;
    all += static_cast<double>(slice.count);
    if (slice.home == home) there += static_cast<double>(slice.count);
  }
  return all > 0 ? there / all : user == home ? 1 : 0;
}

Amounts parameters_of(const Shard& shard, double share) {
  return {.bram36 = share * amount_of(shard.resources, "parameter_bram36"), .uram = share * amount_of(shard.resources, "parameter_uram")};
}

LayerUse use_of(const Plan& plan, const Shard& shard, const ShardFigures& figures) {
  LayerUse use{.name = shard.layer, .modules = {}};
  const auto add = [&use](std::string name, const Amounts& amounts) {
    if (!amounts.nothing()) use.modules.push_back({std::move(name), amounts});
  };
  constexpr Phase kPhases[] = {Phase::kForward, Phase::kErrorBack, Phase::kParameterGradient};
  for (const Phase phase : kPhases) add(fmt::format("{} engine", name_of(phase)), {.dsp = item(figures.dsp, phase)});
  const auto amount = [&shard](std::string_view name) { return amount_of(shard.resources, name); };
  add("logic", {.lut = amount("lut"), .ff = amount("ff")});
  add("buffers", {.bram36 = amount("bram36"), .uram = amount("uram")});
  add("parameters", parameters_of(shard, stored_share(plan, shard.layer, shard.device, shard.device)));
  return use;
}

std::vector<DeviceUse> uses_of(const Plan& plan, const PlanSummary& summary) {
  std::vector<DeviceUse> uses;
  for (const DeviceFigures& device : summary.devices) {
    const DeviceBudget* budget = budget_of(plan, device.device);
    if (budget == nullptr || amount_of(budget->amounts, "dsp") == 0) continue;
    const auto has = [budget](std::string_view name) { return amount_of(budget->amounts, name); };
    DeviceUse use{.index = device.index,
                  .device = device.device,
                  .capacity = {.dsp = has("dsp_device"), .lut = has("lut"), .ff = has("ff"), .bram36 = has("bram36"), .uram = has("uram")},
                  .layers = {}};
    for (const Shard& shard : plan.shards) {
      if (shard.device == device.index) {
        const auto figures = std::ranges::find(device.shards, shard.layer, &ShardFigures::layer);
        if (figures != device.shards.end()) use.layers.push_back(use_of(plan, shard, *figures));
        continue;
      }
      const Amounts kept = parameters_of(shard, stored_share(plan, shard.layer, shard.device, device.index));
      if (!kept.nothing()) use.layers.push_back({fmt::format("{}, for device {}", shard.layer, shard.device), {{"parameters", kept}}});
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

std::string whole_number(double amount) { return grouped(static_cast<int64_t>(amount + 0.5)); }
std::string blocks(double amount) { return amount == 0 ? "-" : fmt::format("{:.1f}", amount); }

nlohmann::ordered_json json_of(const Amounts& amounts) {
  return {{"dsp", amounts.dsp}, {"lut", amounts.lut}, {"ff", amounts.ff}, {"bram36", amounts.bram36}, {"uram", amounts.uram}};
}

}  // namespace

std::string resource_table(const Plan& plan, const PlanSummary& summary) {
  TextTable table({"", "device", "layer, module", "DSP", "LUT", "FF", "BRAM36", "URAM"}, 3);
  const auto add = [&table](std::string index, std::string device, std::string name, const Amounts& amounts) {
    table.add({std::move(index), std::move(device), std::move(name), whole_number(amounts.dsp), whole_number(amounts.lut),
               whole_number(amounts.ff), blocks(amounts.bram36), blocks(amounts.uram)});
  };
  const std::vector<DeviceUse> uses = uses_of(plan, summary);
  if (uses.empty()) return "\nno resources: the plan has no FPGA\n";
  for (const DeviceUse& use : uses) {
    if (&use != &uses.front()) table.rule();
    for (const LayerUse& layer : use.layers) {
      add("", "", layer.name, layer.sum());
      for (const Module& module : layer.modules) add("", "", "  " + module.name, module.amounts);
    }
    add(std::to_string(use.index), use.device, "all", use.sum());
    add("", "", "of", use.capacity);
  }
  return "\nresources of the plan's FPGAs, by layer and module (modelled; LUT and FF projected)\n" + table.text();
}

nlohmann::ordered_json resource_json(const Plan& plan, const PlanSummary& summary) {
  nlohmann::ordered_json devices = nlohmann::ordered_json::array();
  for (const DeviceUse& use : uses_of(plan, summary)) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const LayerUse& layer : use.layers) {
      nlohmann::ordered_json modules = nlohmann::ordered_json::array();
      for (const Module& module : layer.modules) {
        nlohmann::ordered_json entry = {{"module", module.name}};
        entry.update(json_of(module.amounts));
        modules.push_back(std::move(entry));
      }
      layers.push_back({{"layer", layer.name}, {"total", json_of(layer.sum())}, {"modules", std::move(modules)}});
    }
    devices.push_back({{"index", use.index},
                       {"device", use.device},
                       {"total", json_of(use.sum())},
                       {"capacity", json_of(use.capacity)},
                       {"layers", std::move(layers)}});
  }
  return devices;
}

}  // namespace millrace
