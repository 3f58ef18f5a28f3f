#include "fpga/sbe/weight_stream.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>

#include "core/base/error.h"
#include "fpga/recurrence/arithmetic/gate_function.h"

namespace millrace {

namespace {

constexpr std::string_view kPrefix = "weight_stream_";

struct Field {
  const char* name;
  int64_t SbeConfig::*value;
};
constexpr std::array<Field, 9> kFields{{{"row_lanes", &SbeConfig::row_lanes},
                                        {"columns", &SbeConfig::columns},
                                        {"tail_units", &SbeConfig::tail_units},
                                        {"latency", &SbeConfig::latency},
                                        {"block_chunks", &SbeConfig::block_chunks},
                                        {"slots", &SbeConfig::slots},
                                        {"words_per_cycle", &SbeConfig::words_per_cycle},
                                        {"streams", &SbeConfig::streams},
                                        {"steps", &SbeConfig::steps}}};
constexpr std::string_view kPinned = "pinned";  // 0: nothing, 1: the columns of h, 2: all

std::optional<int64_t> amount_of(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources) {
    if (!amount.name.starts_with(kPrefix) || std::string_view(amount.name).substr(kPrefix.size()) != name) continue;
    constexpr double kMost = 1e9;
    if (!(amount.amount >= 0 && amount.amount <= kMost) || amount.amount != std::floor(amount.amount))
      fail(ErrorCode::kMalformed, "layer \"{}\": {} is {}; it must be a whole number", shard.layer, amount.name, amount.amount);
    return static_cast<int64_t>(amount.amount);
  }
  return std::nullopt;
}

}  // namespace

std::string sbe_refusal(const Node& node) {
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  if (cell.bidirectional) return "the engine sbe walks one direction; plan a model without bidirectional layers";
  if (cell.cell == CellKind::kGru && !cell.reset_after)
    return "the engine sbe computes a GRU whose reset gate comes after the recurrent product; set reset_after";
  try {
    gate_forms_of(cell, TanhForm::kPlan);
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

GateMatrix sbe_shape_of(const Node& node) {
  if (const std::string why = sbe_refusal(node); !why.empty()) fail(ErrorCode::kUnavailable, "layer \"{}\": {}", node.layer.name, why);
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  return {node.input_shapes[0].channels, cell.hidden, gates_of(cell.cell), cell.projection};
}

std::vector<NamedAmount> weight_stream_amounts(const SbeConfig& config) {
  std::vector<NamedAmount> amounts;
  for (const Field& field : kFields) amounts.push_back({std::string(kPrefix) + field.name, static_cast<double>(config.*field.value)});
  amounts.push_back({std::string(kPrefix) + std::string(kPinned), static_cast<double>(config.pinned)});
  return amounts;
}

std::optional<SbeConfig> weight_stream_of(const Shard& shard, const Node& node) {
  if (!amount_of(shard, kFields[0].name)) return std::nullopt;
  SbeConfig config{.shape = sbe_shape_of(node), .inputs_share_bus = false};
  for (const Field& field : kFields) {
    const std::optional<int64_t> amount = amount_of(shard, field.name);
    if (!amount) fail(ErrorCode::kMalformed, "layer \"{}\": {}{} is missing among its resources", shard.layer, kPrefix, field.name);
    config.*field.value = *amount;
  }
  const int64_t pinned = amount_of(shard, kPinned).value_or(0);
  if (pinned > 2) fail(ErrorCode::kMalformed, "layer \"{}\": {}{} is {}; 0, 1 or 2 are known", shard.layer, kPrefix, kPinned, pinned);
  config.pinned = static_cast<Pinned>(pinned);
  try {
    check(config);
  } catch (const Error& error) {
    fail(ErrorCode::kMalformed, "layer \"{}\": {}", shard.layer, error.message());
  }
  steps_of_pass(shard, node);  // make up the layer's
  return config;
}

int64_t steps_of_pass(const Shard& shard, const Node& node) {
  const int64_t steps = amount_of(shard, kStepsOfPass.substr(kPrefix.size())).value_or(1);
  if (steps < 1 || node.output.height % steps != 0)
    fail(ErrorCode::kMalformed, "layer \"{}\": {} is {}: the layer has {} steps, and passes of {} do not make them up; give a divisor",
         shard.layer, kStepsOfPass, steps, node.output.height, steps);
  return steps;
}

}  // namespace millrace
