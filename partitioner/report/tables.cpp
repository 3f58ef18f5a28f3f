#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/build_info.h"
#include "core/drawing/quantity.h"
#include "partitioner/report/sections.h"

namespace millrace {
namespace {

constexpr size_t kRowsUnfolded = 80;

// Channels as whole numbers, or with the fraction of the channel that a cut divides.
std::string channel(double value) { return value == std::round(value) ? counted(value) : fmt::format("{:.2f}", value); }

std::string range_text(const PlanView& view, const SegmentPart& part) {
  const int64_t index = view.graph.find(part.layer);
  if (part.products == "after") return "what follows";
  if (part.products == "steps")
    return part.cells ? fmt::format("steps of cells [{}, {})", channel(part.begin), channel(part.end)) : part.products;
  if (part.split == Split::kWhole || index < 0) return part.products.empty() ? "whole" : part.products;
  const bool outputs = part.split == Split::kOutputChannels;
  const Node& node = view.graph.node(index);
  const int64_t all = outputs || node.input_shapes.empty() ? node.output.channels : node.input_shapes.front().channels;
  return fmt::format("{}{} [{}, {}) of {}", part.products.empty() ? "" : part.products + ", ", outputs ? "outputs" : "inputs",
                     channel(part.begin), channel(part.end), separated(all));
}

// "conv_ce 144" for an engine of its own with so many multipliers, "roofline" for one that takes turns.
std::string engine_text(const PhaseEngine& engine) {
  return engine.multipliers > 0 ? fmt::format("{} {}", engine.engine, separated(engine.multipliers)) : engine.engine;
}

std::string engines_text(const Shard* shard) {
  std::string text;
  if (shard == nullptr) return text;
  std::string one_name = shard->phases.empty() ? "" : shard->phases.front().engine;
  bool sized = true;
  for (const PhaseEngine& engine : shard->phases) {
    if (engine.engine != one_name) one_name.clear();
    sized = sized && engine.multipliers > 0;
  }
  if (!one_name.empty() && !sized) return one_name;
  if (!one_name.empty()) {
    for (const PhaseEngine& engine : shard->phases) text += (text.empty() ? "" : " / ") + separated(engine.multipliers);
    return fmt::format("{} {}", one_name, text);
  }
  for (const PhaseEngine& engine : shard->phases) text += (text.empty() ? "" : " / ") + engine_text(engine);
  return text;
}

}  // namespace

void add_segments(Page& page, const PlanView& view) {
  Table table{.columns = {{.name = "Device", .unbroken = true},
                          {.name = "Busy", .number = true},
                          {.name = "Memory", .number = true},
                          {.name = "Layer", .unbroken = true},
                          {.name = "Channels", .unbroken = true},
                          {.name = view.phases() == 1 ? "Engine" : "Engines FP / EB / PG", .unbroken = true}},
              .label = "Segments, shard by shard"};
  for (size_t phase = 0; phase < view.phases(); ++phase) table.columns.push_back({.name = std::string(kPhaseNames[phase]), .number = true});
  table.columns.push_back({.name = "MACs", .number = true});
  table.columns.push_back({.name = "Parameters", .number = true});
  std::map<std::pair<int64_t, std::string>, const Shard*> shards;
  for (const Shard& shard : view.plan.shards) shards[{shard.device, shard.layer}] = &shard;
  for (size_t d = 0; d < view.summary.devices.size(); ++d) {
    const DeviceFigures& device = view.summary.devices[d];
    const auto head = [&](Table::Row& row) {
      row.starts = true;
      row.cells.push_back(
          {.text = device.name.empty() ? std::to_string(d) : fmt::format("{} {}", d, device.name), .tooltip = device.device});
      row.cells.push_back({.text = percent(1 - view.time(d).idle)});
      row.cells.push_back(
          {.text = device.memory_fraction > 0 ? percent(device.memory_fraction) : "\xE2\x80\x93", .bad = device.memory_fraction > 1.0005});
    };
    if (device.shards.empty()) {
      Table::Row row;
      head(row);
      row.cells.push_back({.text = "nothing to do"});
      table.rows.push_back(std::move(row));
    }
    for (size_t s = 0; s < device.shards.size(); ++s) {
      const ShardFigures& shard = device.shards[s];
      Table::Row row;
      if (s == 0) {
        head(row);
      } else {
        row.cells.resize(3);
      }
      row.cells.push_back({.text = shard.layer, .chip = view.class_of(shard.layer)});
      row.cells.push_back({.text = s < device.segment.size() ? range_text(view, device.segment[s]) : ""});
      row.cells.push_back({.text = engines_text(shards[{device.index, shard.layer}])});
      for (size_t phase = 0; phase < view.phases(); ++phase)
        row.cells.push_back({.text = shard.seconds[phase] > 0 ? duration(shard.seconds[phase]) : "\xE2\x80\x93"});
      row.cells.push_back({.text = quantity(shard.macs, "")});
      const bool bytes = device.memory_capacity > 0;
      row.cells.push_back({.text = shard.parameter_storage > 0 ? quantity(shard.parameter_storage, bytes ? "B" : "b") : "\xE2\x80\x93"});
      table.rows.push_back(std::move(row));
    }
  }
  page.section(
      "Segments",
      "Every shard, in ring order. Channels are half-open ranges; a fraction is a channel whose outputs are divided between two devices. "
      "Times are per " +
          std::string(view.sample()) + ", parameters " +
          std::string(view.plan.purpose == Purpose::kInference ? "" : "with their gradients and optimizer slots, ") +
          "wherever they live.");
  const size_t rows = table.rows.size();
  page.table(table, rows > kRowsUnfolded
                        ? fmt::format("All {} shards of {} devices", separated(static_cast<int64_t>(rows)), view.summary.devices.size())
                        : "");
}

void add_constants(Page& page, const PlanView& view) {
  if (view.plan.constants.empty()) return;
  Table table{.columns = {{.name = "Constant"}, {.name = "Value", .number = true}, {.name = "Origin"}},
              .label = "Constants of the cost models"};
  for (const Constant& constant : view.plan.constants) {
    const double value = constant.value;
    std::string text = std::string(kNotKnown);
    if (std::isfinite(value)) text = value == std::round(value) && std::abs(value) < 1e15 ? counted(value) : fmt::format("{:.6g}", value);
    table.rows.push_back({.cells = {{.text = constant.name},
                                    {.text = std::move(text)},
                                    {.text = constant.origin.empty() ? "not said" : constant.origin, .origin = true}}});
  }
  page.section("Constants", "What the modelled figures rest on, and where each number comes from.");
  const size_t rows = table.rows.size();
  page.table(table, rows > kRowsUnfolded ? fmt::format("All {} constants", rows) : "");
}

void add_origin(Page& page, const PlanView& view) {
  const Plan& plan = view.plan;
  page.section("How to make it again");
  if (!view.context.command.empty()) page.preformatted(view.context.command);
  std::vector<std::pair<std::string, std::string>> facts;
  facts.emplace_back("Model",
                     fmt::format("{}{}", plan.model.name, plan.model_digest.empty() ? "" : fmt::format(" (digest {})", plan.model_digest)));
  facts.emplace_back("Cluster", fmt::format("{}{}", view.cluster_text(),
                                            plan.cluster_digest.empty() ? "" : fmt::format(" (digest {})", plan.cluster_digest)));
  facts.emplace_back("Strategy", plan.strategy);
  if (plan.purpose == Purpose::kInference) {
    facts.emplace_back("Purpose", fmt::format("inference: forward passes alone, {} side by side", plan.micro_batch));
  } else {
    facts.emplace_back("Alignment",
                       fmt::format("{}, mini-batch {}, micro-batch {}", name_of(plan.alignment), plan.mini_batch, plan.micro_batch));
    facts.emplace_back("Optimizer", fmt::format("{} ({} state {} per parameter)", name_of(plan.optimizer.kind), plan.optimizer.slots(),
                                                plan.optimizer.slots() == 1 ? "tensor" : "tensors"));
  }
  facts.emplace_back("Arithmetic", fmt::format("{}, {} on links", view.arithmetic_text(), name_of(plan.arithmetic.wire)));
  const Graph::Macs macs = view.graph.macs();
  facts.emplace_back("Network", fmt::format("{0} parameters, {2} forward per {1} (counted)", separated(view.graph.parameter_count()),
                                            view.sample(), quantity(static_cast<double>(macs.conv + macs.dense + macs.rnn), "MACs")));
  facts.emplace_back("Storage", fmt::format("{} over all devices (modelled)", quantity(view.summary.storage_bits, "b")));
  facts.emplace_back("Communication",
                     fmt::format("{} per mini-batch over all links, {} on average (modelled)",
                                 quantity(view.summary.communication_bits, "b"), quantity(1e9 * view.summary.communication_gbps, "b/s")));
  if (view.summary.flop_utilisation > 0)
    facts.emplace_back("Utilisation",
                       fmt::format("{} of all multipliers of all devices (modelled)", percent(view.summary.flop_utilisation)));
  if (view.context.solve_seconds > 0) facts.emplace_back("Planned in", fmt::format("{} (measured)", duration(view.context.solve_seconds)));
  page.facts(facts);
  page.footer(fmt::format("Made by Millrace {}.", kVersion));
}

}  // namespace millrace
