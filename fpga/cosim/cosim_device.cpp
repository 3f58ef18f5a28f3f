#include "fpga/cosim/cosim_device.h"

#include <fmt/format.h>

#include <algorithm>

#include "fpga/conv_ce/phases/convolution_engine.h"
#include "fpga/cosim/simulated_phases.h"

namespace millrace {

namespace {

class CosimGradientSum final : public GradientSum {
 public:
  CosimGradientSum(SimulatedPhases& phases, const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters)
      : phases_(phases), weight_(shape.weight_elements()), bias_(bias ? static_cast<size_t>(shape.outputs) : 0), counters_(counters) {}

  void set(std::span<const int32_t> weight, std::span<const int32_t> bias) override {
    weight_.assign(weight.begin(), weight.end());
    bias_.assign(bias.begin(), bias.end());
  }
  void add(const PhaseShape& phase, std::span<const int16_t> input, std::span<const int16_t> output_error) override {
    phases_.add_gradient(phase, input, output_error, weight_, bias_, counters_);
  }
  std::vector<int32_t> read(size_t part) override { return part == 0 ? weight_ : bias_; }

 private:
  SimulatedPhases& phases_;
  std::vector<int32_t> weight_, bias_;
  ArithmeticCounters& counters_;
};

class CosimEngine final : public ConvolutionEngine {
 public:
  explicit CosimEngine(SimulatedPhasesOptions options) : phases_(std::move(options)), host_(make_host_convolution_engine()) {}

  std::string description() const override { return "conv_ce, its RTL under Verilator"; }
  std::vector<int16_t> forward(const PhaseShape& phase, const ForwardData& data, const void*, PhaseCounters& counters) override {
    return phases_.forward(phase, data, counters);
  }
  std::vector<int16_t> error_back(const PhaseShape& phase, std::span<const int16_t> output_error, std::span<const int16_t> weight,
                                  const void*, ArithmeticCounters& counters) override {
    return phases_.error_back(phase, output_error, weight, counters);
  }
  std::shared_ptr<GradientSum> make_gradient_sum(const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters) override {
    return std::make_shared<CosimGradientSum>(phases_, shape, bias, counters);
  }
  void update(const UpdateRun& update, const void* owner, std::span<float> weights, const GradientSource& gradient,
              std::span<float> first_slot, std::span<float> second_slot, ArithmeticCounters& counters) override {
    host_->update(update, owner, weights, gradient, first_slot, second_slot, counters);
  }

 private:
  SimulatedPhases phases_;
  std::unique_ptr<ConvolutionEngine> host_;
};

}  // namespace

// Engines depend on no weights: what a plan's device computes with comes from the trainer.
std::vector<PlannedEngine> engines_of(const Plan& plan, const Graph& graph, int64_t device) {
  const bool computes = std::ranges::any_of(plan.shards, [device](const Shard& shard) { return shard.device == device; });
  if (!computes) return {};
  return planned_engines(device_design(plan, graph, device, [](const Node&, const ParameterSpec& parameter) {
    return std::vector<double>(static_cast<size_t>(parameter.elements()));
  }));
}

std::unique_ptr<EmulatedFpga> make_cosim_device(const Plan& plan, const Graph& graph, int64_t device, const EngineBuildOptions& options) {
  SimulatedPhasesOptions phases{.planned = engines_of(plan, graph, device), .build = options};
  const size_t engines = phases.planned.size();
  auto engine = std::make_unique<CosimEngine>(std::move(phases));
  return make_fpga_on(std::move(engine),
                      fmt::format("RTL under Verilator (conv_ce, {} engine{}, 16-bit fixed point)", engines, engines == 1 ? "" : "s"));
}

void build_cosim_engines(const Plan& plan, const Graph& graph, int64_t first, const EngineBuildOptions& options) {
  for (int64_t i = 0; i < plan.devices(); ++i)
    for (const PlannedEngine& engine : engines_of(plan, graph, (first + i) % plan.devices()))
      build_library(library_of(engine.hardware), options);
}

}  // namespace millrace
