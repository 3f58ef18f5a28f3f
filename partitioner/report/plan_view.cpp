#include "partitioner/report/plan_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/words_outside.h"

namespace millrace {
namespace {

constexpr size_t kLayersInLegend = 24;
constexpr size_t kSwatchesOfStage = 5;
constexpr double kBram36Bits = 36864, kUramBits = 294912;

std::vector<std::string> heads_of(const Graph& graph) {
  std::vector<std::string> heads;
  for (const LayerGroup& group : graph.groups()) heads.push_back(graph.node(group.head).layer.name);
  return heads;
}

// Devices per column.
size_t neighbours(size_t count) { return std::max<size_t>(1, (count + kMostColumns - 1) / kMostColumns); }

double positive(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

}  // namespace

PlanView::PlanView(const Plan& its_plan, const Graph& its_graph, const PlanSummary& its_summary, const ReportContext& its_context)
    : plan(its_plan), graph(its_graph), summary(its_summary), context(its_context), colours(heads_of(its_graph)) {
  MILLRACE_CHECK(summary.devices.size() == plan.cluster.devices.size(), "a summary of {} devices for a plan of {}", summary.devices.size(),
                 plan.cluster.devices.size());
  MILLRACE_CHECK(summary.links.size() == plan.links.size(), "a summary of {} links for a plan of {}", summary.links.size(),
                 plan.links.size());
  for (size_t i = 0; i < colours.size(); ++i) layer_index_.emplace(colours.layer(i), i);
  find_times();
  find_memory();
  find_packed_memory();
}

std::string PlanView::class_of(const std::string& layer) const {
  const auto found = layer_index_.find(layer);
  return found == layer_index_.end() ? "muted" : colours.class_of(found->second);
}

void PlanView::find_times() {
  for (const DeviceFigures& device : summary.devices) {
    TimeShares shares;
    shares.idle = std::clamp(positive(device.idle_fraction), 0.0, 1.0);
    // Engines that run side by side count by what they have; what takes turns counts by its time.
    double total = 0;
    for (const ShardFigures& shard : device.shards) {
      double of_shard = 0;
      for (size_t phase = 0; phase < 3; ++phase) {
        const double weight = positive(shard.seconds[phase]) * (device.dsp > 0 ? std::max(positive(shard.dsp[phase]), 1e-9) : 1);
        shares.phases[phase] += weight;
        of_shard += weight;
      }
      shares.shards.push_back(of_shard);
      total += of_shard;
    }
    const double scale = total > 0 ? (1 - shares.idle) / total : 0;
    if (total <= 0) shares.idle = 1;
    for (double& phase : shares.phases) phase *= scale;
    for (double& shard : shares.shards) shard *= scale;
    times_.push_back(std::move(shares));
  }
}

void PlanView::find_memory() {
  const size_t count = summary.devices.size();
  std::vector<double> activations(count), homed(count), away(count);
  for (const Shard& shard : plan.shards)
    if (!keeps_act_ram_outside(shard)) item(activations, shard.device) += static_cast<double>(shard.act_ram_bits);
  for (const HomeFigures& home : summary.homes) {
    item(homed, home.home) += positive(home.bits);
    item(away, home.user) += positive(home.bits);
  }
  for (size_t d = 0; d < count; ++d) {
    const DeviceFigures& device = summary.devices[d];
    double weights = 0;
    for (const ShardFigures& shard : device.shards) weights += positive(shard.parameter_storage);
    // The total is the summary's; the parts are what is known of it, and buffers and all else the rest.
    const auto split = [&](double total, double capacity, double bits_per_unit) {
      MemoryShares shares{.capacity = positive(capacity)};
      double rest = positive(total);
      const auto take = [&](double amount) {
        const double taken = std::clamp(amount, 0.0, rest);
        rest -= taken;
        return taken;
      };
      shares.homed = take(homed[d] / bits_per_unit);
      shares.own = take(std::max(0.0, weights - away[d] / bits_per_unit));
      shares.activations = take(activations[d] / bits_per_unit);
      shares.buffers = rest;
      return shares;
    };
    on_chip_.push_back(split(device.bram_bits, device.bram_capacity_bits, 1));
    large_memory_.push_back(split(device.memory, device.memory_capacity, 8));
  }
}

void PlanView::find_packed_memory() {
  struct Packed {
    double fixed = 0, parameters = 0;  // bits
    bool known = false, parameters_known = true;
    int64_t elements = 0;  // of the weight
  };
  const auto packed_of = [&](const Shard& shard) {
    Packed packed;
    bool has_parameters = false, has_packed = false;
    for (const NamedAmount& amount : shard.resources) {
      packed.known = packed.known || amount.name == "bram36" || amount.name == "uram";
      if (amount.name == "bram36") packed.fixed += amount.amount * kBram36Bits;
      if (amount.name == "uram") packed.fixed += amount.amount * kUramBits;
      if (amount.name == "parameter_bram36") packed.parameters += amount.amount * kBram36Bits;
      if (amount.name == "parameter_uram") packed.parameters += amount.amount * kUramBits;
      has_packed = has_packed || amount.name == "parameter_bram36" || amount.name == "parameter_uram";
      has_parameters = has_parameters || (amount.name == "parameter_bram_bits" && amount.amount > 0);
    }
    packed.parameters_known = has_packed || !has_parameters;
    const int64_t node = graph.find(shard.layer);
    if (node >= 0)
      for (const Block& block : shard.blocks) packed.elements += weight_elements(graph, node, block);
    return packed;
  };
  std::vector<double> bits(summary.devices.size());
  std::vector<char> known(summary.devices.size(), 0);
  bool complete = true;
  std::map<std::pair<std::string, int64_t>, Packed> shards;
  for (const Shard& shard : plan.shards) {
    const Packed packed = packed_of(shard);
    item(bits, shard.device) += positive(packed.fixed);
    if (packed.known) item(known, shard.device) = 1;
    complete = complete && (!packed.known || packed.parameters_known);
    shards[{shard.layer, shard.device}] = packed;
  }
  // A slice takes its share of the blocks that the whole would take.
  for (const ParameterHome& home : plan.homes) {
    const auto found = shards.find({home.layer, home.user});
    const int64_t node = graph.find(home.layer);
    if (found == shards.end() || node < 0 || graph.node(node).parameters.empty()) continue;
    if (graph.node(node).parameters.front().tensor != home.tensor || found->second.elements <= 0) continue;
    item(bits, home.home) +=
        positive(found->second.parameters) * static_cast<double>(home.count) / static_cast<double>(found->second.elements);
  }
  for (size_t d = 0; d < summary.devices.size(); ++d)
    packed_bits_.push_back(complete && known[d] != 0 ? std::optional(bits[d]) : std::nullopt);
}

std::string PlanView::device_text(size_t device) const {
  const std::string& name = summary.devices[device].name;
  return name.empty() ? fmt::format("device {}", device) : fmt::format("device {} ({})", device, name);
}

std::string PlanView::arithmetic_text() const {
  std::vector<std::pair<ElementType, std::string>> kinds;  // each with its devices
  for (const DeviceFigures& device : summary.devices) {
    const ElementType type = device.dsp_capacity > 0 ? plan.arithmetic.wire : plan.arithmetic.compute;
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == type; });
    if (known == kinds.end())
      kinds.emplace_back(type, device.device);
    else if ((", " + known->second + ",").find(", " + device.device + ",") == std::string::npos)
      known->second += ", " + device.device;
  }
  if (kinds.size() == 1) return std::string(name_of(kinds.front().first));
  std::string text;
  for (const auto& [type, devices] : kinds) text += fmt::format("{}{} on {}", text.empty() ? "" : " and ", name_of(type), devices);
  return text;
}

std::string PlanView::cluster_text() const {
  if (!plan.cluster.name.empty()) return plan.cluster.name;
  std::string text;
  const auto& devices = plan.cluster.devices;
  for (size_t first = 0; first < devices.size();) {
    size_t last = first;
    while (last < devices.size() && devices[last].device == devices[first].device) ++last;
    if (!text.empty()) text += '+';
    text += last - first == 1 ? devices[first].device : fmt::format("{}x{}", devices[first].device, last - first);
    first = last;
  }
  return text;
}

double PlanView::budget(size_t device, std::string_view amount) const {
  for (const DeviceBudget& kind : plan.budgets) {
    if (kind.device != summary.devices[device].device) continue;
    for (const NamedAmount& entry : kind.amounts)
      if (entry.name == amount) return positive(entry.amount);
  }
  return 0;
}

std::vector<LegendEntry> PlanView::layer_legend() const {
  std::vector<LegendEntry> legend;
  if (colours.size() <= kLayersInLegend) {
    for (size_t i = 0; i < colours.size(); ++i) legend.push_back({.name = colours.layer(i), .classes = {colours.class_of(i)}});
    return legend;
  }
  for (const ColourStage& stage : colours.stages()) {
    const size_t layers = stage.last - stage.first + 1, swatches = std::min(layers, kSwatchesOfStage);
    LegendEntry entry{.name = layers == 1 ? colours.layer(stage.first) : fmt::format("{} ({} layers)", stage.name, layers), .classes = {}};
    for (size_t s = 0; s < swatches; ++s)
      entry.classes.push_back(colours.class_of(stage.first + (swatches == 1 ? 0 : s * (layers - 1) / (swatches - 1))));
    legend.push_back(std::move(entry));
  }
  return legend;
}

std::string PlanView::column_name(size_t count, size_t index) { return std::to_string(index / neighbours(count) * neighbours(count)); }

std::vector<size_t> PlanView::columns(size_t count, const std::function<double(size_t)>& value) const {
  const size_t each = neighbours(count);
  std::vector<size_t> chosen;
  for (size_t first = 0; first < count; first += each) {
    size_t best = first;
    for (size_t i = first; i < std::min(count, first + each); ++i)
      if (value(i) > value(best)) best = i;
    chosen.push_back(best);
  }
  return chosen;
}

std::string PlanView::grouping_note(size_t count, std::string_view what) const {
  const size_t each = neighbours(count);
  return each <= 1 ? "" : fmt::format(" A column stands for {} neighbours and shows {} of them.", each, what);
}

}  // namespace millrace
