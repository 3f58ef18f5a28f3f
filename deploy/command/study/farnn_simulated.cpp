#include "deploy/command/study/farnn_simulated.h"

#include <cmath>
#include <map>
#include <memory>
#include <tuple>

#include "core/base/check.h"
#include "core/plan/pair_modes.h"
#include "core/plan/pair_plan.h"
#include "node/simulate/simulate.h"

namespace millrace {
namespace {

constexpr int64_t kChunksFetched = 2;  // one in use, one on its way
constexpr int64_t kMiniBatches = 4;    // two to fill

int64_t picoseconds(double seconds) { return std::llround(1e12 * seconds); }

PairNetwork network_of(const FarnnNetwork& n) {
  MILLRACE_CHECK(n.gates == 4 || n.gates == 3, "a cell of {} gates", n.gates);
  PairNetwork pair{.cell = {.hidden = n.cells, .projection = n.projection},
                   .inputs = n.inputs,
                   .layers = n.passes(),
                   .steps = n.steps,
                   .batch = n.batch};
  if (n.gates == 3) {
    pair.cell.cell = CellKind::kGru;
    pair.cell.reset_after = true;
  }
  return pair;
}

// Loads that are part of F and E take their set-up there, too.
void add_to_steps(Plan& plan, double seconds) {
  for (Shard& shard : plan.shards)
    if (shard.blocks.empty())
      for (PhaseEngine& phase : shard.phases) phase.picoseconds_per_unit += picoseconds(seconds / static_cast<double>(plan.micro_batch));
}

double simulated_seconds(const FarnnNetwork& n, const FarnnMachine& machine, PairMode mode) {
  const FarnnParts parts = parts_of(n, machine);
  const PairNetwork network = network_of(n);
  const Graph graph(pair_model(network));
  const PairTimes times{.steps_forward = parts.forward,
                        .steps_back = parts.back,
                        .input = parts.input,
                        .gradient = parts.gradient + parts.update,
                        .on_board = parts.on_board};
  Plan plan = in_mode(pair_plan(graph, network, times, 8e-9 * machine.load_bytes_per_second), graph, mode);
  SimulationOptions options{.samples = kMiniBatches * n.batch};
  if (mode == PairMode::kNoOverlap) {
    add_to_steps(plan, machine.pass_seconds);
  } else {
    plan.time_chunks = machine.chunks;
    options.pair = {.chunks_fetched = kChunksFetched, .single_memory = true};
    if (mode == PairMode::kAllFpga)
      add_to_steps(plan, 2 * machine.pass_seconds);
    else
      options.pair.load_picoseconds = picoseconds(machine.pass_seconds);
  }
  return static_cast<double>(n.batch) / mini_batch_rate(plan, simulate(plan, graph, options));
}

}  // namespace

FarnnTimes simulated_farnn_times() {
  using Question = std::tuple<FarnnNetwork, FarnnMachine, PairMode>;
  const auto known = std::make_shared<std::map<Question, double>>();
  const auto in = [&](PairMode mode) {
    return [known, mode](const FarnnNetwork& network, const FarnnMachine& machine) {
      const auto [place, added] = known->try_emplace(Question(network, machine, mode), 0);
      if (added) place->second = simulated_seconds(network, machine, mode);
      return place->second;
    };
  };
  return {.training = in(PairMode::kOverlap), .no_overlap = in(PairMode::kNoOverlap), .all_on_board = in(PairMode::kAllFpga)};
}

std::string_view farnn_difference(std::string_view what) {
  if (what == "no_overlap")
    return "no product is made for errors of the network's input, and the highest layer gives out one step, where the formulas count all "
           "layers alike";
  if (what == "fig7") return "a step's errors and its record take longer on the link than on the board; the formulas have the link keep up";
  return "not known";
}

}  // namespace millrace
