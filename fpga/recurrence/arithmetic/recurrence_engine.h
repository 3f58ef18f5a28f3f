// Where the forward pass of an FPGA device's recurrent layers is computed: on the host, on simulated hardware, or behind a runtime.
//
//   const std::unique_ptr<RecurrenceEngine> engine = make_host_recurrence_engine();
//   const std::vector<int16_t> h = engine->forward(layer, run, x, state, counters, &trace);
//
// Every engine gives direct_forward's numbers (fixed_recurrent.h), bit by bit: the same arguments, the same state behind the last step,
// the same counters and trace. Used from one thread. Fails with kUnavailable, naming what, on layers that the engine does not compute.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "fpga/recurrence/arithmetic/fixed_recurrent.h"

namespace millrace {

class RecurrenceEngine {
 public:
  virtual ~RecurrenceEngine() = default;

  virtual std::vector<int16_t> forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x,
                                       RecurrentState& state, RecurrentCounters& counters, RecurrentTrace* trace) = 0;
};

std::unique_ptr<RecurrenceEngine> make_host_recurrence_engine();

}  // namespace millrace
