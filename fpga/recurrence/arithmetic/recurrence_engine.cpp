#include "fpga/recurrence/arithmetic/recurrence_engine.h"

namespace millrace {

namespace {

class HostEngine final : public RecurrenceEngine {
 public:
  std::vector<int16_t> forward(const FixedRecurrent& layer, const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                               RecurrentCounters& counters, RecurrentTrace* trace) override {
    return direct_forward(layer, run, x, state, counters, trace);
  }
};

}  // namespace

std::unique_ptr<RecurrenceEngine> make_host_recurrence_engine() { return std::make_unique<HostEngine>(); }

}  // namespace millrace
