// The forward pass of a device's recurrent layers on simulated RTL: each goes to an engine of blocked columns made for its matrix.
//
//   SimulatedRecurrence engine({.planned = planned_recurrences(plan, graph, device)});
//   const std::vector<int16_t> h = engine.forward(layer, run, x, state, counters, nullptr);
//   engine.cycles();                        // simulated clock cycles so far
//
// Sequences go through the engine as many side by side as it takes, their steps as many at a time, weights come out of a memory that
// answers after a hundred cycles, and what comes, h of every step and cells behind the last, is compared with direct_forward, which also
// gives counters, trace and state; the first difference is an error that says where. Weights that stay on the chip are loaded again where
// they have changed, a state that is not zero before a sequence's first step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/cosim/engine_builder.h"
#include "fpga/recurrence/arithmetic/recurrence_engine.h"
#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

struct PlannedRecurrence {
  std::string layer;
  CellKind cell = CellKind::kLstm;
  GateForms forms;
  SbeConfig config;
};
// Of one device of a plan for inference, with straight lines or tables for sigmoid and tanh.
std::vector<PlannedRecurrence> planned_recurrences(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth);

// To be built (engine_builder.h).
EngineLibrary library_of(const PlannedRecurrence& planned);

struct SimulatedRecurrenceOptions {
  std::vector<PlannedRecurrence>
      planned;  // with other gate functions where a layer has others; empty: small engines, with all weights on the chip, as layers come
  EngineBuildOptions build = {};
};

class SimulatedRecurrence final : public RecurrenceEngine {
 public:
  explicit SimulatedRecurrence(SimulatedRecurrenceOptions options);
  ~SimulatedRecurrence() override;

  std::vector<int16_t> forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                               RecurrentCounters& counters, RecurrentTrace* trace) override;

  // Of all engines, so far.
  int64_t cycles() const;
  int64_t weight_words() const;  // fetched

 private:
  struct Served;
  Served& engine_for(const FixedRecurrent& layer, const RecurrentRun& run);

  SimulatedRecurrenceOptions options_;
  std::vector<std::unique_ptr<Served>> served_;
};

}  // namespace millrace
