#include "deploy/command/rtl/rtl_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"
#include "fpga/conv_ce/generator/planned_pace.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/pe_chain/built_chain.h"
#include "fpga/pe_chain/generator/steps_files.h"

namespace millrace {

namespace {

constexpr int64_t kStepElementBits = 16;

// Whose hardware it is, and what is built of it.
struct StepsEngine {
  int64_t device = 0;
  std::string board, layer;
  std::string reason;  // why it is not built; empty: it is
  PeChainHardware hardware;
  int64_t planned_cycles[2] = {0, 0}, built_cycles[2] = {0, 0};  // of a step of a micro-batch: F, E
  double planned_seconds = 0, built_seconds = 0;                 // of a sample
};

double planned_amount(const Shard& shard, std::string_view name) {
  for (const NamedAmount& amount : shard.resources)
    if (amount.name == name) return amount.amount;
  return 0;
}

std::string why_not_built(const Shard& shard, const Recurrent& cell, const Plan& plan) {
  if (!shard.units.empty()) return "several boards share its steps, which the engine's SystemVerilog does not do yet; give them one board";
  if (cell.cell == CellKind::kGru && !cell.reset_after) return "its reset comes before the product; set reset_after";
  if (plan.arithmetic.wire != ElementType::kFixed16) return "the plan's elements are not of sixteen bits; plan with --bits 16";
  if (planned_amount(shard, "chained_elements") <= 0) return "the plan does not say how its engine is built; plan again";
  return "";
}

// The elements that the plan counts, with memories as deep as the layer fills them.
PeChainHardware hardware_of_shard(const Shard& shard, const Recurrent& cell, int64_t samples) {
  const auto elements = static_cast<int64_t>(planned_amount(shard, "chained_elements"));
  const auto chains = static_cast<int64_t>(planned_amount(shard, "chains"));
  const ChainWork work{.cell = cell.cell,
                       .element_bits = kStepElementBits,
                       .samples = samples,
                       .products = {{cell.hidden, cell.features()}},
                       .chains = chains,
                       .projected = cell.projection};
  return chain_for(work, elements / (chains > 0 ? chains : kPortBits / kStepElementBits));
}

StepsEngine steps_engine_of(const Plan& plan, const Graph& graph, const Shard& shard) {
  const Node& node = graph.node(graph.index_of(shard.layer));
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  StepsEngine engine{.device = shard.device,
                     .board = item(plan.cluster.devices, shard.device).device,
                     .layer = shard.layer,
                     .reason = why_not_built(shard, cell, plan),
                     .hardware = {}};
  if (!engine.reason.empty()) return engine;
  const double clock = planned_clock(plan, engine.board);
  if (clock <= 0) fail(ErrorCode::kMismatch, "the plan does not say the clock of device {}; plan again, for boards", shard.device);
  const int64_t samples = plan.micro_batch;
  engine.hardware = hardware_of_shard(shard, cell, samples);
  engine.planned_cycles[0] = static_cast<int64_t>(planned_amount(shard, "step_cycles_forward"));
  engine.planned_cycles[1] = static_cast<int64_t>(planned_amount(shard, "step_cycles_back"));
  const auto steps = static_cast<double>(node.output.height);
  for (const PhaseEngine& phase : shard.phases) {
    if (phase.phase == Phase::kParameterGradient) continue;
    const bool back = phase.phase == Phase::kErrorBack;
    const StepSettings settings = step_settings(engine.hardware, {cell.hidden, cell.projection}, back, samples);
    const auto load = static_cast<double>(load_beats(engine.hardware, settings, back));
    engine.built_cycles[back ? 1 : 0] = steady_step_cycles(engine.hardware, settings, samples, back);
    engine.planned_seconds += 1e-12 * static_cast<double>(phase.picoseconds_per_unit) * steps;
    engine.built_seconds += static_cast<double>(cell.directions()) *
                            (steps * static_cast<double>(engine.built_cycles[back ? 1 : 0]) + load) / clock / static_cast<double>(samples);
  }
  return engine;
}

bool makes_steps_on_board(const Plan& plan, const Shard& shard) { return shard.blocks.empty() && loads_every_pass(plan, shard.device); }

}  // namespace

bool plans_steps_on_boards(const Plan& plan) {
  return std::ranges::any_of(plan.shards, [&](const Shard& shard) { return makes_steps_on_board(plan, shard); });
}

std::vector<std::string> write_steps_engines(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                                             const LayerFormats& formats, const std::filesystem::path& folder, uint64_t seed) {
  std::vector<std::string> written;
  for (const Shard& shard : plan.shards) {
    if (shard.device != device || !makes_steps_on_board(plan, shard)) continue;
    const StepsEngine engine = steps_engine_of(plan, graph, shard);
    if (!engine.reason.empty())
      fail(ErrorCode::kUnavailable, "device {} ({}): layer \"{}\" is not generated: {}", device, engine.board, shard.layer, engine.reason);
    const Node& node = graph.node(graph.index_of(shard.layer));
    const auto& cell = std::get<Recurrent>(node.layer.operation);
    const auto values = [&](const std::string& tensor) {
      const auto found = std::ranges::find(node.parameters, tensor, &ParameterSpec::tensor);
      if (found == node.parameters.end()) fail(ErrorCode::kMismatch, "layer \"{}\" has no {}", shard.layer, tensor);
      const std::vector<double> exact = weights(node, *found);
      return std::vector<float>(exact.begin(), exact.end());
    };
    for (int64_t direction = 0; direction < cell.directions(); ++direction) {
      const std::string ending = direction == 0 ? "" : "_reverse";
      const std::vector<float> hidden = values("weight_hh" + ending), input_bias = values("bias_ih" + ending),
                               hidden_bias = values("bias_hh" + ending),
                               projection = cell.projection > 0 ? values("weight_hr" + ending) : std::vector<float>();
      ArithmeticCounters counters;
      const FixedRecurrent layer =
          fixed_recurrent(cell, 0, {{}, hidden, input_bias, hidden_bias, projection}, recurrent_formats_of(formats, shard.layer, cell),
                          gate_forms_of(cell, TanhForm::kPlan), counters);
      const std::string name = shard.layer + ending;
      write_steps_engine(folder / name, engine.hardware, layer,
                         {.samples = plan.micro_batch, .steps = std::min<int64_t>(3, node.output.height), .seed = seed});
      written.push_back(name);
    }
  }
  if (written.empty())
    fail(ErrorCode::kUnavailable,
         "device {} of this plan makes no steps of a recurrent layer, and a plan of strategy kind has hardware for those alone; --check "
         "tells "
         "of all its boards",
         device);
  return written;
}

int tell_steps_check(const Plan& plan, const Graph& graph, bool json) {
  std::vector<StepsEngine> engines;
  for (const Shard& shard : plan.shards) {
    const bool side_by_side = std::ranges::any_of(shard.phases, [](const PhaseEngine& phase) { return phase.multipliers > 0; });
    if (side_by_side)
      fail(ErrorCode::kUnavailable,
           "device {} has engines of its own beside boards that make steps, and --check tells of one kind at a time", shard.device);
    if (makes_steps_on_board(plan, shard)) engines.push_back(steps_engine_of(plan, graph, shard));
  }
  double planned = 0, built = 0;
  bool all = true;
  for (const StepsEngine& engine : engines) {
    all = all && engine.reason.empty();
    planned = std::max(planned, engine.planned_seconds);
    built = std::max(built, engine.built_seconds);
  }
  if (json) {
    nlohmann::ordered_json report = {{"engines", nlohmann::ordered_json::array()}, {"pace_ratio", nullptr}};
    for (const StepsEngine& engine : engines)
      report["engines"].push_back({{"device", engine.device},
                                   {"board", engine.board},
                                   {"layer", engine.layer},
                                   {"generated", engine.reason.empty()},
                                   {"reason", engine.reason},
                                   {"chains", engine.hardware.chains},
                                   {"per_chain", engine.hardware.per_chain},
                                   {"weight_words", engine.hardware.words},
                                   {"planned_cycles", {{"fp", engine.planned_cycles[0]}, {"eb", engine.planned_cycles[1]}}},
                                   {"built_cycles", {{"fp", engine.built_cycles[0]}, {"eb", engine.built_cycles[1]}}},
                                   {"planned_seconds", engine.planned_seconds},
                                   {"built_seconds", engine.built_seconds}});
    if (all && built > 0) report["pace_ratio"] = planned / built;
    report["origin"] = "planned: the plan's cost model; built: the cycle model that the SystemVerilog equals to the cycle";
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("{:>6} {:<8} {:<20} {:>10} {:>7} {:>18} {:>16} {:>12} {:>12}\n", "device", "board", "layer", "elements", "words",
               "planned F E cycles", "built F E", "planned ms", "built ms");
    for (const StepsEngine& engine : engines) {
      fmt::print("{:>6} {:<8} {:<20} ", engine.device, engine.board, engine.layer);
      if (!engine.reason.empty()) {
        fmt::print("not built: {}\n", engine.reason);
        continue;
      }
      fmt::print(
          "{:>10} {:>7} {:>18} {:>16} {:>12.4f} {:>12.4f}\n", fmt::format("{} x {}", engine.hardware.chains, engine.hardware.per_chain),
          engine.hardware.words, fmt::format("{} {}", engine.planned_cycles[0], engine.planned_cycles[1]),
          fmt::format("{} {}", engine.built_cycles[0], engine.built_cycles[1]), 1e3 * engine.planned_seconds, 1e3 * engine.built_seconds);
    }
    if (all && built > 0)
      fmt::print("pace_ratio {:.3f}: the built boards' pace over the planned one (modelled); cycles: of a step of a micro-batch\n",
                 planned / built);
    else
      fmt::print("no pace_ratio while an engine is missing\n");
  }
  return all ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

}  // namespace millrace
