#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "core/drawing/quantity.h"
#include "core/plan/off_chip.h"
#include "core/plan/words_outside.h"
#include "partitioner/report/sections.h"

namespace millrace {
namespace {

// Below this, a full scale would show nothing.
constexpr double kNearlyEmpty = .1;

double amount_of(const std::vector<NamedAmount>& amounts, std::string_view name) {
  for (const NamedAmount& amount : amounts)
    if (amount.name == name) return std::isfinite(amount.amount) ? std::max(0.0, amount.amount) : 0;
  return 0;
}

struct Resource {
  std::string title = {};
  std::string unit = {};  // "" for things that are counted
  std::function<double(size_t)> used = {}, capacity = {};
  std::function<std::vector<BarPart>(size_t)> parts = {};              // in the resource's unit
  std::function<std::optional<double>(size_t)> mark = {}, limit = {};  // likewise
  std::string note = {};
  std::vector<LegendEntry> legend = {};
};

std::string amount_text(double amount, const std::string& unit) {
  if (unit == "s") return duration(amount);
  return unit.empty() ? counted(amount) : quantity(amount, unit);
}

// Percent of the capacity where every user has one, else plain amounts.
Figure panel(const PlanView& view, const Resource& resource) {
  const size_t count = view.summary.devices.size();
  bool shares = true;
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    if (resource.used(i) > 0 && resource.capacity(i) <= 0) shares = false;
    largest = std::max(largest, resource.used(i));
  }
  const auto full = [&](size_t i) { return resource.capacity(i) > 0 ? resource.used(i) / resource.capacity(i) : 0; };
  const auto value = [&](size_t i) { return shares ? full(i) : resource.used(i); };
  // Large amounts without capacities are drawn in thousands of thousands of their unit.
  const double divisor = shares || largest < 1e4 ? 1 : std::pow(1000.0, std::floor(std::log10(largest) / 3));
  StackedColumns chart;
  chart.x_label = "device";
  if (shares) {
    chart.y.label = "% of what the device has";
    chart.y.suffix = "%";
  } else {
    chart.y.label = divisor == 1 ? resource.unit : quantity(divisor, resource.unit.empty() ? "units" : resource.unit, 1);
  }

  double fullest = 0;
  size_t fullest_device = 0;
  for (const size_t i : view.columns(count, value)) {
    const double capacity = resource.capacity(i), scale = shares ? (capacity > 0 ? 100 / capacity : 0) : 1 / divisor;
    Column column{.name = PlanView::column_name(count, i), .absent = capacity <= 0 && resource.used(i) <= 0};
    column.parts = resource.parts(i);
    for (BarPart& part : column.parts) {
      part.amount *= scale;
      if (!view.detailed()) part.tooltip.clear();
    }
    column.tooltip =
        column.absent ? fmt::format("{} has none", view.device_text(i))
                      : fmt::format("{}: {}{}", view.device_text(i), amount_text(resource.used(i), resource.unit),
                                    capacity > 0 ? fmt::format(" of {} ({})", amount_text(capacity, resource.unit), percent(full(i))) : "");
    if (resource.mark && !column.absent)
      if (const auto mark = resource.mark(i)) column.mark = *mark * scale;
    if (resource.limit && !column.absent)
      if (const auto limit = resource.limit(i)) column.limit = *limit * scale;
    if (value(i) > fullest) {
      fullest = value(i);
      fullest_device = i;
    }
    chart.columns.push_back(std::move(column));
  }
  const bool nearly_empty = shares && fullest < kNearlyEmpty;
  if (shares) chart.y.least = 0;
  if (shares && !nearly_empty) {
    chart.references.push_back({.at = 100, .label = "all there is"});
    chart.y.most = std::max(100.0, 100 * fullest * 1.02);
  }
  std::string note =
      fullest > 0 ? fmt::format("Fullest: device {}, {}{}.", fullest_device, amount_text(resource.used(fullest_device), resource.unit),
                                resource.capacity(fullest_device) > 0
                                    ? fmt::format(" of {} ({})", amount_text(resource.capacity(fullest_device), resource.unit),
                                                  percent(full(fullest_device)))
                                    : "")
                  : "Not used.";
  if (!resource.note.empty()) note += " " + resource.note;
  if (nearly_empty) note += " The scale ends far below what there is.";
  note += view.grouping_note(count, "the fullest");
  chart.label = fmt::format("{} by device. {}", resource.title, note);
  Figure figure{.title = resource.title, .note = std::move(note), .drawing = draw(chart)};
  figure.drawing.legend = resource.legend;
  return figure;
}

// Of what a shard says. Its traffic off chip is that at the period its engine was sized for: the plan's own may be longer, where the
// memory itself sets the pace. What waits there for its errors is none of that.
double amount_in_plan(const PlanView& view, const ShardFigures& shard, std::string_view name) {
  const double period = view.summary.seconds_per_image;
  if (name != "dram_bytes_per_second" || period <= 0) return amount_of(shard.resources, name);
  const double bytes = amount_of(shard.resources, kOffChipBytesPerSample), waiting = amount_of(shard.resources, kWaitingBytesPerSample);
  const double waits = waiting > 0 ? waiting : amount_of(shard.resources, kActRamBytesPerSample);
  return (bytes > 0 ? bytes / period : amount_of(shard.resources, name)) + waits / period;
}

std::vector<BarPart> parts_by_layer(const PlanView& view, size_t device, std::string_view name, const std::string& unit) {
  std::vector<BarPart> parts;
  for (const ShardFigures& shard : view.summary.devices[device].shards) {
    const double amount = amount_in_plan(view, shard, name);
    if (amount > 0)
      parts.push_back({.amount = amount,
                       .classes = view.class_of(shard.layer),
                       .tooltip = fmt::format("device {}, {}: {}", device, shard.layer, amount_text(amount, unit))});
  }
  return parts;
}

Resource by_layer(const PlanView& view, std::string title, std::string_view name, std::string unit, double DeviceFigures::*used,
                  double DeviceFigures::*capacity) {
  Resource resource{.title = std::move(title), .unit = std::move(unit)};
  resource.used = [&view, used](size_t i) { return view.summary.devices[i].*used; };
  resource.capacity = [&view, capacity](size_t i) { return view.summary.devices[i].*capacity; };
  resource.parts = [&view, name, unit = resource.unit](size_t i) { return parts_by_layer(view, i, name, unit); };
  return resource;
}

Resource dsp(const PlanView& view) {
  Resource resource = by_layer(view, "DSP slices", "dsp", "", &DeviceFigures::dsp, &DeviceFigures::dsp_capacity);
  resource.parts = [&view](size_t i) {
    const std::vector<ShardFigures>& shards = view.summary.devices[i].shards;
    // One engine that makes the phases in turn, as of a recurrent layer's steps, is no phase's.
    const bool by_phase = std::ranges::any_of(shards, [](const ShardFigures& shard) { return std::ranges::max(shard.dsp) > 0; });
    if (!by_phase) return parts_by_layer(view, i, "dsp", "");
    std::vector<BarPart> parts;
    for (const ShardFigures& shard : shards)
      for (size_t phase = 0; phase < view.phases(); ++phase)
        if (shard.dsp[phase] > 0)
          parts.push_back({.amount = shard.dsp[phase],
                           .classes = fmt::format("{} {}", view.class_of(shard.layer), kPhaseClasses[phase]),
                           .tooltip = fmt::format("device {}, {} {}: {}", i, shard.layer, kPhaseNames[phase], counted(shard.dsp[phase]))});
    return parts;
  };
  bool limited = false;
  for (size_t i = 0; i < view.summary.devices.size(); ++i) {
    const double most = view.budget(i, "dsp");
    limited = limited || (most > 0 && most < view.summary.devices[i].dsp_capacity);
  }
  if (limited) {
    resource.limit = [&view](size_t i) {
      const double most = view.budget(i, "dsp");
      return most > 0 ? std::optional(most) : std::nullopt;
    };
    resource.note = "The solid line is what engines may take.";
  }
  for (size_t phase = 0; phase < view.phases(); ++phase)
    resource.legend.push_back({.name = std::string(kPhaseWords[phase]), .classes = {fmt::format("ink {}", kPhaseClasses[phase])}});
  return resource;
}

const char* held_words(const PlanView& view) { return view.phases() == 1 ? "activations in flight" : "activations between FP and PG"; }

std::vector<BarPart> memory_parts(const PlanView& view, const MemoryShares& shares, size_t device, const std::string& unit) {
  std::vector<BarPart> parts;
  const auto add = [&](double amount, const char* classes, const char* what) {
    if (amount > 0)
      parts.push_back(
          {.amount = amount, .classes = classes, .tooltip = fmt::format("device {}, {}: {}", device, what, amount_text(amount, unit))});
  };
  add(shares.activations, "held", held_words(view));
  add(shares.buffers, "buffers", "buffers and the rest");
  add(shares.own, "own", "own parameters");
  add(shares.homed, "homed", "parameters homed here for others");
  return parts;
}

std::vector<LegendEntry> memory_legend(const PlanView& view) {
  std::vector<LegendEntry> legend = {{.name = held_words(view), .classes = {"held"}},
                                     {.name = "buffers and the rest", .classes = {"buffers"}},
                                     {.name = "own parameters", .classes = {"own"}}};
  if (!view.summary.homes.empty()) legend.push_back({.name = "parameters homed here for others", .classes = {"homed"}});
  return legend;
}

Resource on_chip_memory(const PlanView& view) {
  Resource resource = by_layer(view, "On-chip memory", "bram_bits", "b", &DeviceFigures::bram_bits, &DeviceFigures::bram_capacity_bits);
  resource.parts = [&view](size_t i) { return memory_parts(view, view.on_chip(i), i, "b"); };
  bool packed = false;
  for (size_t i = 0; i < view.summary.devices.size(); ++i) packed = packed || view.packed_bits(i).has_value();
  if (packed) {
    resource.mark = [&view](size_t i) { return view.packed_bits(i); };
    resource.note = "The short line is the same in whole blocks, packed to their widths and depths.";
  }
  resource.legend = memory_legend(view);
  return resource;
}

Resource large_memory(const PlanView& view) {
  Resource resource = by_layer(view, "Device memory", "memory_bytes", "B", &DeviceFigures::memory, &DeviceFigures::memory_capacity);
  resource.parts = [&view](size_t i) { return memory_parts(view, view.large_memory(i), i, "B"); };
  resource.legend = memory_legend(view);
  return resource;
}

std::string words_for(const std::string& name) {
  if (name == "uram") return "UltraRAM blocks";
  if (name == "lutram_lut") return "LUTs used as memory";
  if (name == "dram_bytes_per_second") return "Off-chip traffic";
  if (name == "chained_elements") return "Chained elements, of a gate";
  if (name == "chains") return "Chains, of a gate";
  if (name == "weight_words") return "Weights of the fullest element";
  if (name == "step_cycles_forward") return "Cycles of a step, forward";
  if (name == "step_cycles_back") return "Cycles of a step, back";
  if (name == "load_seconds") return "Load of weights, a pass";
  if (name == "input_product_seconds") return "Products with the inputs, were they made here";
  return name;
}

// How an engine is built and what passes it: of a plan, and nothing of a board.
bool is_setting(std::string_view name) { return name.starts_with("weight_stream_") || name == kWeightWordsPerSample; }

// Whatever else shards say that they take.
std::vector<Resource> others(const PlanView& view) {
  static const std::set<std::string, std::less<>> known = {"dsp",
                                                           "lut",
                                                           "ff",
                                                           "bram_bits",
                                                           "bram36",
                                                           "memory_bytes",
                                                           "dram_bytes",
                                                           "off_chip_bytes_per_sample",
                                                           "waiting_bytes_per_sample",
                                                           std::string(kActRamBytesPerSample)};
  std::set<std::string> names;
  for (const DeviceFigures& device : view.summary.devices)
    for (const ShardFigures& shard : device.shards)
      for (const NamedAmount& amount : shard.resources)
        if (amount.amount > 0 && !known.contains(amount.name) && !is_setting(amount.name)) names.insert(amount.name);
  std::vector<Resource> resources;
  for (const std::string& name : names) {
    Resource resource{.title = words_for(name),
                      .unit = name.ends_with("_bits")               ? "b"
                              : name.ends_with("_bytes_per_second") ? "B/s"
                              : name.ends_with("_bytes")            ? "B"
                              : name.ends_with("_seconds")          ? "s"
                                                                    : ""};
    resource.used = [&view, name](size_t i) {
      double sum = 0;
      for (const ShardFigures& shard : view.summary.devices[i].shards) sum += amount_in_plan(view, shard, name);
      return sum;
    };
    resource.capacity = [&view, name](size_t i) { return view.budget(i, name); };
    resource.parts = [&view, name, unit = resource.unit](size_t i) { return parts_by_layer(view, i, name, unit); };
    resources.push_back(std::move(resource));
  }
  return resources;
}

}  // namespace

void add_resources(Page& page, const PlanView& view) {
  std::vector<Resource> candidates = {
      dsp(view),
      by_layer(view, "Lookup tables (LUT)", "lut", "", &DeviceFigures::lut, &DeviceFigures::lut_capacity),
      by_layer(view, "Flip-flops (FF)", "ff", "", &DeviceFigures::ff, &DeviceFigures::ff_capacity),
      on_chip_memory(view),
      large_memory(view),
      by_layer(view, "Off-chip memory", "dram_bytes", "B", &DeviceFigures::off_chip_bytes, &DeviceFigures::off_chip_capacity)};
  for (Resource& resource : others(view)) candidates.push_back(std::move(resource));
  std::vector<Figure> figures;
  for (const Resource& resource : candidates) {
    bool used = false;
    for (size_t i = 0; i < view.summary.devices.size(); ++i) used = used || resource.used(i) > 0;
    if (used) figures.push_back(panel(view, resource));
  }
  if (figures.empty()) return;
  page.section(
      "Resources",
      "What each device gives, modelled: compute and logic in the colours of the layers, memory by what it holds. A pale column is a "
      "device without that resource.");
  page.legend(view.layer_legend());
  page.figures(figures);
}

}  // namespace millrace
