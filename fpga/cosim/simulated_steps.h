// The steps of a device's recurrent layers on simulated RTL, forward and back: engines of chained elements under Verilator.
//
//   SimulatedSteps engine({.build = {}});
//   const std::vector<int16_t> h = engine.forward({layer, {0, layer.hidden}}, sums, run, state, kept, counters);
//   engine.cycles();                        // simulated clock cycles so far
//
// Whatever a plan builds, an engine here has units of 2 x 4 elements, of 4 x 4 where outputs are projected, one to a kind of cell: numbers
// do not depend on how many there are.
// Sequences go through it one after the other. Before a pass its weights are loaded, for the way back transposed, and the state that it
// goes on from; what leaves is compared with FixedSteps, which also gives states and counters: the first difference is an error that says
// where. A board that shares steps with others takes one at a time, or one part of it. Fails with kUnavailable on more than one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/cosim/engine_builder.h"
#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

struct PlannedSteps {
  PeChainHardware hardware;
  GateForms forms;
  bool operator==(const PlannedSteps&) const = default;
};
// Of the layers whose steps alone a device of the plan makes, with straight lines or tables for sigmoid and tanh.
std::vector<PlannedSteps> planned_steps(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth);
// Whether a device makes steps alone of some layer, with gradients elsewhere.
bool makes_steps(const Plan& plan, const Graph& graph, int64_t device);

// To be built (engine_builder.h).
EngineLibrary library_of(const PlannedSteps& planned);

struct SimulatedStepsOptions {
  EngineBuildOptions build = {};
};

class SimulatedSteps final : public ChainEngine {
 public:
  explicit SimulatedSteps(SimulatedStepsOptions options);
  ~SimulatedSteps() override;

  std::vector<int16_t> forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run, RecurrentState& state,
                               FixedKept& kept, RecurrentCounters& counters) override;
  FixedErrors back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                   FixedBackState& state, ArithmeticCounters& counters) override;

  // Of all engines, so far.
  int64_t cycles() const;

 private:
  struct Served;
  Served& engine_for(const StepsOfBoard& of);

  SimulatedStepsOptions options_;
  std::unique_ptr<ChainEngine> host_;
  std::vector<std::unique_ptr<Served>> served_;
};

}  // namespace millrace
