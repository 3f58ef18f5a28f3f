#include "fpga/pe_chain/arithmetic/chain_engine.h"

namespace millrace {

namespace {

constexpr ChainBuild kBuild{.elements = 256};  // numbers do not depend on it

FixedSteps model_of(const StepsOfBoard& of) {
  if (of.layer.projection > 0 && of.part == StepPart::kBoth) return {of.layer, std::vector<UnitRange>{of.board}, kBuild, of.error_fraction};
  return {of.layer, of.board, kBuild, of.error_fraction, of.part};
}

class HostEngine final : public ChainEngine {
 public:
  std::vector<int16_t> forward(const StepsOfBoard& of, std::span<const int16_t> sums, const RecurrentRun& run, RecurrentState& state,
                               FixedKept& kept, RecurrentCounters& counters) override {
    return model_of(of).forward(sums, run, state, kept, counters);
  }
  FixedErrors back(const StepsOfBoard& of, std::span<const int16_t> errors, const RecurrentRun& run, const FixedKept& kept,
                   FixedBackState& state, ArithmeticCounters& counters) override {
    return model_of(of).back(errors, run, kept, state, counters);
  }
};

}  // namespace

std::unique_ptr<ChainEngine> make_host_chain_engine() { return std::make_unique<HostEngine>(); }

}  // namespace millrace
