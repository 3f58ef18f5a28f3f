#include "fpga/cosim/cosim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/index.h"
#include "fpga/conv_ce/phases/convolution_engine.h"
#include "fpga/cosim/simulated_phases.h"
#include "fpga/cosim/simulated_recurrence.h"
#include "fpga/cosim/simulated_steps.h"

namespace millrace {

namespace {

class CosimGradientSum final : public GradientSum {
 public:
  CosimGradientSum(SimulatedPhases& phases, const ConvolutionShape& shape, bool bias, ArithmeticCounters& counters)
      : phases_(phases), weight_(shape.weight_elements()), bias_(bias ? to_size(shape.outputs) : 0), counters_(counters) {}

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

namespace {

constexpr int64_t kSmallLanes = 2;  // of engines that no plan sizes

// What the shard holds, as a convolution over the rows that come; nothing where it holds no convolution and no dense layer.
std::optional<ConvolutionShape> held_convolution(const Node& node, const Shard& shard) {
  const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
  if ((conv == nullptr && !std::holds_alternative<Dense>(node.layer.operation)) || shard.blocks.empty()) return std::nullopt;
  ChannelRange inputs = shard.blocks.front().inputs, outputs = shard.blocks.front().outputs;
  for (const Block& block : shard.blocks) {
    inputs = hull(inputs, block.inputs);
    outputs = hull(outputs, block.outputs);
  }
  const Shape& in = node.input_shapes[0];
  if (conv == nullptr) return ConvolutionShape{inputs.size(), outputs.size(), in.height, in.width};
  return ConvolutionShape{inputs.size(),  outputs.size(), in.height,   in.width,         conv->kernel_h,   conv->kernel_w, conv->stride_h,
                          conv->stride_w, conv->pad_h,    conv->pad_w, conv->dilation_h, conv->dilation_w, conv->groups};
}

// No device is generated whole of a plan for inference: layers that are no recurrence get small engines of their own.
std::vector<PlannedEngine> forward_engines(const Plan& plan, const Graph& graph, int64_t device) {
  std::vector<PlannedEngine> engines;
  for (const Shard& shard : plan.shards)
    if (shard.device == device)
      if (const auto shape = held_convolution(graph.node(graph.index_of(shard.layer)), shard)) {
        engines.push_back(small_engine(*shape, kSmallLanes));
        engines.back().layer = shard.layer;
      }
  return engines;
}

}  // namespace

// Engines depend on no weights: what a plan's device computes with comes from the trainer.
std::vector<PlannedEngine> engines_of(const Plan& plan, const Graph& graph, int64_t device) {
  const bool computes = std::ranges::any_of(plan.shards, [device](const Shard& shard) { return shard.device == device; });
  if (!computes) return {};
  if (plan.purpose == Purpose::kInference) return forward_engines(plan, graph, device);
  // A board that makes the steps of recurrent layers does nothing else.
  if (makes_steps(plan, graph, device)) return {};
  return planned_engines(device_design(
      plan, graph, device, [](const Node&, const ParameterSpec& parameter) { return std::vector<double>(to_size(parameter.elements())); }));
}

std::vector<PlannedRecurrence> recurrences_of(const Plan& plan, const Graph& graph, int64_t device, TanhForm smooth) {
  // Plans that train have no engine for whole recurrent layers; engines_of says so.
  return plan.purpose == Purpose::kInference ? planned_recurrences(plan, graph, device, smooth) : std::vector<PlannedRecurrence>{};
}

std::unique_ptr<EmulatedFpga> make_cosim_device(const Plan& plan, const Graph& graph, int64_t device, const EngineBuildOptions& options) {
  SimulatedPhasesOptions phases{.planned = engines_of(plan, graph, device), .build = options};
  SimulatedRecurrenceOptions recurrence{.planned = recurrences_of(plan, graph, device), .build = options};
  const size_t engines = phases.planned.size(), recurrent = recurrence.planned.size();
  const size_t steps = planned_steps(plan, graph, device, TanhForm::kPlan).size();
  const auto counted = [](const char* name, size_t count) { return fmt::format("{}, {} engine{}", name, count, count == 1 ? "" : "s"); };
  const std::string what = steps > 0        ? counted("pe_chain", steps)
                           : recurrent == 0 ? counted("conv_ce", engines)
                           : engines == 0   ? counted("sbe", recurrent)
                                            : counted("conv_ce", engines) + "; " + counted("sbe", recurrent);
  return make_fpga_on(std::make_unique<CosimEngine>(std::move(phases)), std::make_unique<SimulatedRecurrence>(std::move(recurrence)),
                      std::make_unique<SimulatedSteps>(SimulatedStepsOptions{.build = options}),
                      fmt::format("RTL under Verilator ({}, 16-bit fixed point)", what));
}

void build_cosim_engines(const Plan& plan, const Graph& graph, int64_t first, const EngineBuildOptions& options, TanhForm smooth,
                         const std::function<bool(std::string_view)>& simulated) {
  for (int64_t i = 0; i < plan.devices(); ++i) {
    const int64_t device = (first + i) % plan.devices();
    if (simulated && !simulated(item(plan.cluster.devices, device).device)) continue;
    for (const PlannedEngine& engine : engines_of(plan, graph, device)) build_library(library_of(engine.hardware), options);
    for (const PlannedRecurrence& engine : recurrences_of(plan, graph, device, smooth)) build_library(library_of(engine), options);
    for (const PlannedSteps& engine : planned_steps(plan, graph, device, smooth)) build_library(library_of(engine), options);
  }
}

}  // namespace millrace
