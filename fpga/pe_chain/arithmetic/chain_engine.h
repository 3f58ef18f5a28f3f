// Where the steps of a recurrent layer on chained elements are computed: on the host, on simulated hardware, or behind a runtime.
//
//   const std::unique_ptr<ChainEngine> engine = make_host_chain_engine();
//   const std::vector<int16_t> h = engine->forward({layer, {0, layer.hidden}}, sums, run, state, kept, counters);
//   const FixedErrors errors = engine->back({layer, {0, layer.hidden}, /*error_fraction=*/12}, dh, run, kept, back_state, errors_counted);
//
// Every engine gives the numbers of FixedSteps (fixed_steps.h), bit by bit: the same arguments, states, records and counters. `layer` is
// borrowed for a call; `board` has the cells that are computed, all of them or those of one board of several, and `part` what of a step, of
// a projected layer on several. Used from one thread. Fails with kUnavailable, naming what, on layers that the engine does not compute.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fpga/pe_chain/arithmetic/fixed_steps.h"

namespace millrace {

struct StepsOfBoard {
  const FixedRecurrent& layer;
  UnitRange board;
  int error_fraction = 0;
  StepPart part = StepPart::kBoth;

  bool whole() const { return board.begin == 0 && board.end == layer.hidden; }
};

class ChainEngine {
 public:
  virtual ~ChainEngine() = default;

  virtual std::vector<int16_t> forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run,
                                       RecurrentState& state, FixedKept& kept, RecurrentCounters& counters) = 0;
  virtual FixedErrors back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                           FixedBackState& state, ArithmeticCounters& counters) = 0;
};

std::unique_ptr<ChainEngine> make_host_chain_engine();

}  // namespace millrace
