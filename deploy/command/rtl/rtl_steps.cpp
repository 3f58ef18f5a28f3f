#include "deploy/command/rtl/rtl_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/parts.h"
#include "core/plan/seats.h"
#include "deploy/session/steps_check.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/pe_chain/generator/steps_files.h"

namespace millrace {

namespace {

// A layer's direction on one of a card's places.
struct PlacedSteps {
  std::string name;
  FixedRecurrent layer;
  PeChainHardware hardware;
  UnitRange units;
  int64_t steps = 0;
};

PlacedSteps placed_steps(const Plan& plan, const Graph& graph, const Shard& shard, int64_t direction, const WeightSource& weights,
                         const LayerFormats& formats) {
  const StepsEngine engine = steps_engine_of(plan, graph, shard);
  if (!engine.reason.empty())
    fail(ErrorCode::kUnavailable, "device {} ({}): layer \"{}\" is not generated: {}", shard.device, engine.board, shard.layer,
         engine.reason);
  const Node& node = graph.node(graph.index_of(shard.layer));
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  const auto values = [&](const std::string& tensor) {
    const auto found = std::ranges::find(node.parameters, tensor, &ParameterSpec::tensor);
    if (found == node.parameters.end()) fail(ErrorCode::kMismatch, "layer \"{}\" has no {}", shard.layer, tensor);
    const std::vector<double> exact = weights(node, *found);
    return std::vector<float>(exact.begin(), exact.end());
  };
  const std::string ending = direction == 0 ? "" : "_reverse";
  const std::vector<float> hidden = values("weight_hh" + ending), input_bias = values("bias_ih" + ending),
                           hidden_bias = values("bias_hh" + ending),
                           projection = cell.projection > 0 ? values("weight_hr" + ending) : std::vector<float>();
  ArithmeticCounters counters;
  return {.name = shard.layer + ending,
          .layer = fixed_recurrent(cell, 0, {{}, hidden, input_bias, hidden_bias, projection},
                                   recurrent_formats_of(formats, shard.layer, cell), gate_forms_of(cell, TanhForm::kPlan), counters),
          .hardware = engine.hardware,
          .units = engine.units,
          .steps = std::min<int64_t>(3, node.output.height)};
}

bool share_an_engine(const PlacedSteps& one, const PlacedSteps& other) {
  const PeChainHardware &a = one.hardware, &b = other.hardware;
  return a.cell == b.cell && one.layer.forms == other.layer.forms && a.chains == b.chains && a.per_chain == b.per_chain &&
         a.projects == b.projects && a.ultra == b.ultra;
}

}  // namespace

std::vector<std::string> write_steps_engines(const Plan& plan, const Graph& graph, int64_t device, const WeightSource& weights,
                                             const LayerFormats& formats, const std::filesystem::path& folder, uint64_t seed) {
  const std::vector<int64_t> seats = seats_of(plan.cluster);
  const int64_t card = 0 <= device && device < plan.devices() ? item(seats, device) : -1;
  const bool one_of_several = std::ranges::count(seats, card) > 1;
  std::vector<PlacedSteps> placed;
  for (const Shard& shard : plan.shards) {
    if (item(seats, shard.device) != card || !makes_steps_on_board(plan, shard)) continue;
    for (int64_t direction = 0; direction < directions_of(graph.node(graph.index_of(shard.layer))); ++direction)
      placed.push_back(placed_steps(plan, graph, shard, direction, weights, formats));
  }
  if (placed.empty())
    fail(ErrorCode::kUnavailable,
         "device {} of this plan makes no steps of a recurrent layer, and a plan of strategy kind has hardware for those alone; --check "
         "tells "
         "of all its boards",
         device);
  // A card that fills several places has an engine for all of them that want the same elements.
  std::vector<std::vector<const PlacedSteps*>> engines;
  for (const PlacedSteps& steps : placed) {
    const auto same = std::ranges::find_if(engines, [&](const auto& of) { return one_of_several && share_an_engine(*of.front(), steps); });
    if (same == engines.end())
      engines.push_back({&steps});
    else
      same->push_back(&steps);
  }
  std::vector<std::string> written;
  for (const std::vector<const PlacedSteps*>& engine : engines) {
    PeChainHardware hardware = engine.front()->hardware;
    std::vector<ServedSteps> served;
    for (const PlacedSteps* const steps : engine) {
      hardware = engine_for_all(hardware, steps->hardware);
      served.push_back({.name = steps->name, .layer = &steps->layer, .board = steps->units, .steps = steps->steps});
    }
    const std::string name =
        engine.size() == 1 ? engine.front()->name : fmt::format("{}_and_{}_more", engine.front()->name, engine.size() - 1);
    write_steps_engine(folder / name, hardware, served, {.samples = plan.micro_batch, .seed = seed});
    written.push_back(name);
  }
  return written;
}

int tell_steps_check(const Plan& plan, const Graph& graph, bool json) {
  const StepsCheck check = check_steps(plan, graph);
  if (json) {
    nlohmann::ordered_json report = {{"engines", nlohmann::ordered_json::array()}, {"pace_ratio", nullptr}};
    for (const StepsEngine& engine : check.engines)
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
    if (check.pace_ratio) report["pace_ratio"] = *check.pace_ratio;
    report["origin"] = "planned: the plan's cost model; built: the cycle model that the SystemVerilog equals to the cycle";
    fmt::print("{}\n", report.dump(2));
  } else {
    fmt::print("{:>6} {:<8} {:<20} {:>10} {:>7} {:>18} {:>16} {:>12} {:>12}\n", "device", "board", "layer", "elements", "words",
               "planned F E cycles", "built F E", "planned ms", "built ms");
    for (const StepsEngine& engine : check.engines) {
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
    if (check.pace_ratio)
      fmt::print("pace_ratio {:.3f}: the built boards' pace over the planned one (modelled); cycles: of a step of a micro-batch\n",
                 *check.pace_ratio);
    else
      fmt::print("no pace_ratio while an engine is missing\n");
  }
  return check.all ? 0 : exit_status_of(ErrorCode::kInfeasible);
}

}  // namespace millrace
