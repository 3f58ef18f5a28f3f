#include "deploy/session/steps_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "fpga/conv_ce/generator/planned_pace.h"

namespace millrace {

namespace {

constexpr int64_t kStepElementBits = 16;

double planned_amount(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == name) return amount.amount;
  return 0;
}

int64_t planned_cycles(const Shard& shard, std::string_view name) {
  return static_cast<int64_t>(std::min(1e15, planned_amount(shard, name)));
}

// As many as the port feeds where a plan of before does not say.
double chains_of(const Shard& shard) {
  const double chains = planned_amount(shard, "chains");
  return chains > 0 ? chains : static_cast<double>(kPortBits / kStepElementBits);
}

std::string why_not_built(const Shard& shard, const Recurrent& cell, const Plan& plan) {
  if (!shard.units.empty() && cell.bidirectional)
    return "several boards share the steps of both its directions, whose weights would take turns on one engine, which the engine's "
           "SystemVerilog does not do; give them one board";
  if (cell.cell == CellKind::kGru && !cell.reset_after) return "its reset comes before the product; set reset_after";
  if (plan.arithmetic.wire != ElementType::kFixed16) return "the plan's elements are not of sixteen bits; plan with --bits 16";
  const double elements = planned_amount(shard, "chained_elements"), chains = chains_of(shard);
  if (elements <= 0) return "the plan does not say how its engine is built; plan again";
  constexpr double kMostChains = kPortBits / kStepElementBits;
  if (chains < 1 || chains > kMostChains || chains != std::floor(chains) || std::fmod(elements, chains) != 0 ||
      elements / chains > static_cast<double>(kLongestChain))
    return fmt::format("the plan has {:g} elements in {:g} chains, and up to {:g} chains of 1 to {} elements each are built; plan again",
                       elements, chains, kMostChains, kLongestChain);
  return "";
}

// The elements that the plan counts, with memories as deep as the layer fills them.
PeChainHardware hardware_of_shard(const Shard& shard, const Recurrent& cell, const StepExtent& extent, int64_t samples, bool ultra) {
  const auto elements = static_cast<int64_t>(planned_amount(shard, "chained_elements"));
  const auto chains = static_cast<int64_t>(chains_of(shard));
  const ChainWork work{.cell = cell.cell,
                       .element_bits = kStepElementBits,
                       .samples = samples,
                       .products = {{extent.units, extent.inputs_of_units()}},
                       .chains = chains,
                       .projected = extent.projected,
                       .all_units = extent.all_units,
                       .all_features = extent.all_features};
  PeChainHardware hardware = chain_for(work, elements / chains);
  hardware.ultra = ultra;
  return hardware;
}

// A board that has UltraRAM keeps the weights there.
bool has_ultra(const Plan& plan, const std::string& board) {
  for (const DeviceBudget& budget : plan.budgets) {
    const auto found = std::ranges::find(budget.amounts, "uram", &NamedAmount::name);
    if (budget.device == board && found != budget.amounts.end()) return found->amount > 0;
  }
  return false;
}

}  // namespace

bool makes_steps_on_board(const Plan& plan, const Shard& shard) { return shard.blocks.empty() && loads_every_pass(plan, shard.device); }

bool plans_steps_on_boards(const Plan& plan) {
  return std::ranges::any_of(plan.shards, [&](const Shard& shard) { return makes_steps_on_board(plan, shard); });
}

StepsEngine steps_engine_of(const Plan& plan, const Graph& graph, const Shard& shard) {
  const Node& node = graph.node(graph.index_of(shard.layer));
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  StepsEngine engine{.device = shard.device,
                     .board = item(plan.cluster.devices, shard.device).device,
                     .layer = shard.layer,
                     .reason = why_not_built(shard, cell, plan),
                     .hardware = {},
                     .units = {}};
  if (!engine.reason.empty()) return engine;
  const double clock = planned_clock(plan, engine.board);
  if (clock <= 0) fail(ErrorCode::kMismatch, "the plan does not say the clock of device {}; plan again, for boards", shard.device);
  const int64_t samples = plan.micro_batch;
  engine.units = shard.units.empty() ? UnitRange{0, cell.hidden} : UnitRange{shard.units.begin, shard.units.end};
  // Boards that share steps take both directions at once, beside each other.
  const bool shared = !shard.units.empty();
  const int64_t directions = shared ? cell.directions() : 1;
  const StepExtent extent = extent_of(cell.hidden, cell.projection, engine.units);
  engine.hardware = hardware_of_shard(shard, cell, extent, directions * samples, has_ultra(plan, engine.board));
  engine.planned_cycles[0] = planned_cycles(shard, "step_cycles_forward");
  engine.planned_cycles[1] = planned_cycles(shard, "step_cycles_back");
  const auto steps = static_cast<double>(node.output.height);
  for (const PhaseEngine& phase : shard.phases) {
    if (phase.phase == Phase::kParameterGradient) continue;
    const bool back = phase.phase == Phase::kErrorBack;
    const StepSettings settings = step_settings(engine.hardware, extent, back, directions * samples);
    const auto load = static_cast<double>(directions * load_beats(engine.hardware, settings, back));
    int64_t& cycles = engine.built_cycles[back ? 1 : 0];
    cycles = shared ? lone_step_cycles(engine.hardware, settings, directions * samples, back)
                    : steady_step_cycles(engine.hardware, settings, samples, back);
    engine.planned_seconds += 1e-12 * static_cast<double>(phase.picoseconds_per_unit) * steps;
    engine.built_seconds += static_cast<double>(cell.directions() / directions) * (steps * static_cast<double>(cycles) + load) / clock /
                            static_cast<double>(samples);
  }
  return engine;
}

StepsCheck check_steps(const Plan& plan, const Graph& graph) {
  StepsCheck check;
  double planned = 0, built = 0;
  for (const Shard& shard : plan.shards) {
    const bool side_by_side = std::ranges::any_of(shard.phases, [](const PhaseEngine& phase) { return phase.multipliers > 0; });
    if (side_by_side)
      fail(ErrorCode::kUnavailable,
           "device {} has engines of its own beside boards that make steps, and --check tells of one kind at a time", shard.device);
    if (!makes_steps_on_board(plan, shard)) continue;
    const StepsEngine& engine = check.engines.emplace_back(steps_engine_of(plan, graph, shard));
    planned = std::max(planned, engine.planned_seconds);
    built = std::max(built, engine.built_seconds);
  }
  check.all = std::ranges::all_of(check.engines, [](const StepsEngine& engine) { return engine.reason.empty(); });
  if (check.all && built > 0) check.pace_ratio = planned / built;
  return check;
}

}  // namespace millrace
