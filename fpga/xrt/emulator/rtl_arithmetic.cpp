// Simulated RTL as what a device computes with.
#include <charconv>

#include "core/base/error.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/plan/validate.h"
#include "fpga/cosim/cosim_device.h"
#include "fpga/cosim/simulated_phases.h"
#include "fpga/cosim/simulated_recurrence.h"
#include "fpga/cosim/simulated_steps.h"
#include "fpga/xrt/emulator/phase_body.h"

namespace millrace::xrt {

namespace {

class RtlArithmetic final : public PhaseArithmetic {
 public:
  RtlArithmetic(SimulatedPhasesOptions options, SimulatedRecurrenceOptions recurrence)
      : phases_(std::move(options)), recurrence_(std::move(recurrence)) {}

  std::string description() const override { return "RTL of conv_ce, sbe and pe_chain under Verilator"; }
  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, PhaseCounters& counters) override {
    return phases_.forward(phase, data, counters);
  }
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  ArithmeticCounters& counters) override {
    return phases_.error_back(phase, output_error, weight, counters);
  }
  void add_gradient(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error,
                    std::span<int32_t> weight, std::span<int32_t> bias, ArithmeticCounters& counters) override {
    phases_.add_gradient(phase, input, output_error, weight, bias, counters);
  }
  RecurrenceEngine& recurrence() override { return recurrence_; }
  ChainEngine& chains() override { return steps_; }

 private:
  SimulatedPhases phases_;
  SimulatedRecurrence recurrence_;
  SimulatedSteps steps_{SimulatedStepsOptions{}};
};

}  // namespace

std::unique_ptr<PhaseArithmetic> make_rtl_arithmetic(std::string_view which) {
  const size_t hash = which.rfind('#');
  int64_t device = -1;
  if (hash != std::string_view::npos) std::from_chars(which.data() + hash + 1, which.data() + which.size(), device);
  const Plan plan = load_plan(std::string(which.substr(0, hash)));
  if (device < 0 || device >= plan.devices())
    fail(ErrorCode::kUsage, "rtl:{}: the plan has devices 0 to {}; the body is named rtl:PLAN#DEVICE", which, plan.devices() - 1);
  const Graph graph(plan.model);
  return std::make_unique<RtlArithmetic>(SimulatedPhasesOptions{.planned = engines_of(plan, graph, device), .build = {}},
                                         SimulatedRecurrenceOptions{.planned = recurrences_of(plan, graph, device), .build = {}});
}

}  // namespace millrace::xrt
