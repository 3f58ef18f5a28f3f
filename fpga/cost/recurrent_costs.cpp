#include "fpga/cost/recurrent_costs.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/device/no_such_engine.h"
#include "core/plan/off_chip.h"
#include "core/plan/pair_modes.h"
#include "fpga/common/cost/fabric_costs.h"
#include "fpga/conv_ce/shard_buffers.h"
#include "fpga/cost/layer_geometry.h"
#include "fpga/sbe/rtl/cycle_model.h"
#include "fpga/sbe/weight_stream.h"

namespace millrace {

namespace {

constexpr int64_t kMemoryLatency = 100;  // cycles, of the memory that weights are streamed from: projected

}  // namespace

RecurrentCosts::RecurrentCosts(FpgaResources board, int64_t element_bits, const InferenceBatch& inference)
    : board_(std::move(board)), element_bits_(element_bits) {
  if (inference.streams > 0) blocked_ = std::make_unique<BlockedEngines>(board_, inference);
}

bool RecurrentCosts::counts(const ShardQuestion& question) const { return is_blocked(question.node) || asks_for_steps(question); }

ShardDemand RecurrentCosts::demand_of(const ShardQuestion& question) const {
  return is_blocked(question.node) ? blocked_demand(question) : steps_demand(question);
}

ShardCost RecurrentCosts::cost_of(const ShardQuestion& question, std::span<const NamedAmount> capacities) const {
  return is_blocked(question.node) ? blocked_cost(question) : steps_cost(question, capacities);
}

std::string RecurrentCosts::refusal(const Node& node) const {
  const std::string why = is_blocked(&node) ? blocked_->refusal(node) : "";
  return why.empty() ? "" : "cannot be on a board: " + why;
}

std::string RecurrentCosts::steps_refusal(const ShardQuestion& question) const {
  std::string why;
  static_cast<void>(chained_steps(question, board_, element_bits_, rows_, &why));
  return why;
}

bool RecurrentCosts::is_blocked(const Node* node) const {
  return blocked_ != nullptr && node != nullptr && role_of(node->layer.operation) == Role::kRecurrence;
}

// Of chained elements, which FP and EB share: they take turns, as on a CPU.
ShardDemand RecurrentCosts::steps_demand(const ShardQuestion& question) const {
  ShardDemand demand;
  std::string why;
  const std::optional<ChainedSteps> steps = chained_steps(question, board_, element_bits_, rows_, &why);
  if (!steps) {
    demand.amounts[0] = kNoSuchEngine;
    return demand;
  }
  const int64_t multipliers = gates_of(std::get<Recurrent>(question.node->layer.operation).cell) * steps->row.elements;
  const FabricUse chains = engine_fabric({.multipliers = multipliers, .fabric_multipliers = 0, .phases = 2}, element_bits_);
  const FabricUse behind = fabric_behind(question);
  demand.seconds = steps->forward_seconds + steps->back_seconds;
  demand.amounts[0] = steps->row.dsp;
  demand.amounts[1] = chains.luts + behind.luts;
  demand.amounts[2] = chains.flip_flops + behind.flip_flops;
  demand.amounts[kOnChipMemory] = steps->memory_bits;
  demand.amounts[4] = steps->off_chip_bytes;
  return demand;
}

ShardCost RecurrentCosts::steps_cost(const ShardQuestion& question, std::span<const NamedAmount> capacities) const {
  std::string why;
  const std::optional<ChainedSteps> steps = chained_steps(question, board_, element_bits_, rows_, &why);
  if (!steps) fail(ErrorCode::kUsage, "layer \"{}\" on {}: {}", question.node->layer.name, board_.name, why);
  const ShardDemand demand = steps_demand(question);
  ShardCost cost;
  cost.unit = StreamingUnit::kStep;
  const auto height = static_cast<double>(question.node->output.height);
  const auto add = [&](Phase phase, double seconds) {
    const auto picoseconds = static_cast<int64_t>(std::ceil(1e12 * seconds / height));
    cost.phases.push_back({phase, "pe_chain", 0, std::max<int64_t>(1, picoseconds)});
    cost.seconds_per_sample += 1e-12 * static_cast<double>(cost.phases.back().picoseconds_per_unit) * height;
  };
  add(Phase::kForward, steps->forward_seconds);
  if (question.node->error_needed) add(Phase::kErrorBack, steps->back_seconds);
  for (size_t i = 0; i < capacities.size(); ++i) cost.resources.push_back({capacities[i].name, demand.amounts[i]});
  const auto count = [](int64_t amount) { return static_cast<double>(amount); };
  for (NamedAmount amount : std::initializer_list<NamedAmount>{{"chained_elements", count(steps->row.elements)},
                                                               {"chains", count(steps->row.chains)},
                                                               {"weight_words", count(steps->row.words)},
                                                               {"step_cycles_forward", count(steps->row.forward_cycles)},
                                                               {"step_cycles_back", count(steps->row.back_cycles)},
                                                               {"load_seconds", steps->load_seconds},
                                                               {std::string(kInputProductSeconds), steps->input_product_seconds}})
    cost.resources.push_back(std::move(amount));
  return cost;
}

// What runs behind the layer, and the memory of it.
FabricUse RecurrentCosts::fabric_behind(const ShardQuestion& question) const {
  if (!question.owner) return {};
  return special_function_fabric(special_function_use(question.after, question.lifetime, element_bits_, 1).lane_logic, element_bits_);
}

ShardDemand RecurrentCosts::blocked_demand(const ShardQuestion& question) const {
  ShardDemand demand;
  const BlockedEngine* const engine = blocked_->within(*question.node, question.period_seconds);
  if (engine == nullptr) {
    demand.amounts[0] = kNoSuchEngine;
    return demand;
  }
  const SbeUse& use = engine->point.use;
  const FabricUse behind = fabric_behind(question);
  demand.seconds = engine->bytes_per_sample / (kUsableBandwidth * board_.off_chip_bytes_per_second);
  demand.amounts[0] = use.dsp;
  demand.amounts[1] = use.lut / kUsableLuts + behind.luts;
  demand.amounts[2] = behind.flip_flops;
  demand.amounts[kOnChipMemory] = use.bram36 * kBram36Bits + use.uram * kUramBits;
  if (engine->point.timing.weight_words > 0) demand.amounts[4] = 2 * static_cast<double>(engine->point.config.shape.weights());
  return demand;
}

ShardCost RecurrentCosts::blocked_cost(const ShardQuestion& question) const {
  const BlockedEngine* const engine = blocked_->within(*question.node, question.period_seconds);
  if (engine == nullptr)
    fail(ErrorCode::kUsage, "layer \"{}\" on {}: no engine takes a sequence in {} seconds", question.node->layer.name, board_.name,
         question.period_seconds);
  const ShardDemand demand = blocked_demand(question);
  const SbePoint& point = engine->point;
  ShardCost cost;
  cost.unit = StreamingUnit::kStep;
  const double steps = static_cast<double>(question.node->output.height);
  // The recurrence over slots chose it; a plan's pace is that of the engine as it is built.
  const double built = built_cycles(point.config, kMemoryLatency).batch / point.timing.cycles;
  const double seconds = engine->seconds_per_sample * std::max(1.0, built);
  cost.phases = {{Phase::kForward, "sbe", point.config.multipliers(), static_cast<int64_t>(std::llround(1e12 * seconds / steps))}};
  cost.seconds_per_sample = 1e-12 * static_cast<double>(cost.phases[0].picoseconds_per_unit) * steps;
  cost.resources = {{"dsp", demand.amounts[0]},
                    {"lut", demand.amounts[1]},
                    {"ff", demand.amounts[2]},
                    {"bram_bits", demand.amounts[kOnChipMemory]},
                    {"dram_bytes", demand.amounts[4]}};
  const auto add = [&](const char* name, double amount) {
    if (amount > 0) cost.resources.push_back({name, amount});
  };
  add("bram36", point.use.bram36);
  add("uram", point.use.uram);
  add("lutram_lut", point.use.lutram_lut);
  add("dram_bytes_per_second", engine->bytes_per_sample / cost.seconds_per_sample);
  add(kWeightWordsPerSample.data(), engine->bytes_per_sample / 2);
  if (question.gradient_samples > 0) add(kOffChipBytesPerSample.data(), engine->bytes_per_sample);
  for (NamedAmount& amount : weight_stream_amounts(point.config)) cost.resources.push_back(std::move(amount));
  return cost;
}

}  // namespace millrace
