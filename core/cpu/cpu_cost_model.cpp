#include "core/cpu/cpu_cost_model.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {

namespace {

constexpr double kBytes = 4;  // of an fp32 number

// Elements of a shard's blocks, for one sample.
struct Extent {
  double input = 0;   // what the shard reads, counted once
  double output = 0;  // what it writes, once per block
  double weights = 0;
  double macs = 0;  // FP
};

class CpuCostModel final : public CostModel {
 public:
  explicit CpuCostModel(const CpuProfile& profile) : profile_(profile), capacities_{{"memory_bytes", profile.memory_bytes}} {}

  std::string device() const override { return "cpu"; }
  int64_t channel_quantum() const override { return 16; }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return 0; }

  std::vector<Constant> constants() const override {
    const auto constant = [&](std::string name, double value) { return Constant{std::move(name), value, profile_.origin}; };
    return {constant("threads", profile_.threads),
            constant("macs_per_second", profile_.macs_per_second),
            constant("bytes_per_second", profile_.bytes_per_second),
            constant("memory_bytes", profile_.memory_bytes),
            constant("convolution_forward_efficiency", profile_.convolution.forward),
            constant("convolution_error_back_efficiency", profile_.convolution.error_back),
            constant("convolution_parameter_gradient_efficiency", profile_.convolution.parameter_gradient),
            constant("dense_forward_efficiency", profile_.dense.forward),
            constant("dense_error_back_efficiency", profile_.dense.error_back),
            constant("dense_parameter_gradient_efficiency", profile_.dense.parameter_gradient)};
  }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    const Seconds seconds = seconds_of(question);
    const Memory memory = memory_of(question);
    ShardDemand demand;
    demand.seconds = seconds.forward + seconds.error_back + seconds.parameter_gradient;
    demand.amounts[0] = memory.fixed;
    demand.parameters = memory.weights;
    return demand;
  }

  ShardCost cost_of(const ShardQuestion& question) const override {
    const Seconds seconds = seconds_of(question);
    const Memory memory = memory_of(question);
    ShardCost cost;
    cost.unit = StreamingUnit::kSample;
    add_phase(cost, Phase::kForward, seconds.forward);
    add_phase(cost, Phase::kErrorBack, seconds.error_back);
    add_phase(cost, Phase::kParameterGradient, seconds.parameter_gradient);
    cost.seconds_per_sample = seconds.forward + seconds.error_back + seconds.parameter_gradient;
    cost.resources = {{"memory_bytes", memory.fixed}, {"parameter_memory_bytes", memory.weights}};
    cost.act_ram_bits = static_cast<int64_t>(8 * memory.activations);
    return cost;
  }

 private:
  // Per sample.
  struct Seconds {
    double forward = 0;
    double error_back = 0;
    double parameter_gradient = 0;
  };
  struct Memory {
    double fixed = 0;  // activations in flight, errors, parameters of the layers after the sum
    double activations = 0;
    double weights = 0;  // of the layer, with gradient and slots
  };

  Seconds seconds_of(const ShardQuestion& question) const {
    MILLRACE_CHECK(question.node != nullptr, "a cost is asked for without a layer");
    const Node& node = *question.node;
    const Extent extent = extent_of(node, question.blocks);
    const PhaseEfficiency& efficiency = std::holds_alternative<Conv2d>(node.layer.operation) ? profile_.convolution : profile_.dense;
    const double batch = static_cast<double>(question.micro_batch);
    const double weights = extent.weights / batch;  // read once per micro-batch

    Seconds result;
    result.forward = seconds(extent.macs, efficiency.forward, extent.input + extent.output + weights);
    if (node.input_error_needed) result.error_back = seconds(extent.macs, efficiency.error_back, extent.input + extent.output + weights);
    // Gradients are made apart and then added: written, read, and the sum read and written.
    if (node.trained)
      result.parameter_gradient = seconds(extent.macs, efficiency.parameter_gradient, extent.input + extent.output + 4 * weights);
    for (const Node* after : question.after) {
      const double elements = static_cast<double>(after->work.input_elements + after->work.output_elements);
      result.forward += seconds(0, 1, elements);
      if (after->input_error_needed) result.error_back += seconds(0, 1, 2 * elements);
      if (after->trained) result.parameter_gradient += seconds(0, 1, static_cast<double>(after->work.parameters));
    }
    return result;
  }

  Memory memory_of(const ShardQuestion& question) const {
    const Node& node = *question.node;
    const Extent extent = extent_of(node, question.blocks);
    const double batch = static_cast<double>(question.micro_batch);
    const double copies = node.trained ? 2.0 + question.optimizer_slots : 1.0;
    double parameters = 0;
    for (const Node* after : question.after) parameters += static_cast<double>(after->work.parameters) * copies;
    const double errors = node.error_needed ? (extent.input + extent.output) * batch : 0;
    Memory memory;
    memory.activations = kBytes * held_elements(question, extent) * batch * static_cast<double>(question.window);
    memory.weights = kBytes * extent.weights * copies;
    memory.fixed = memory.activations + kBytes * (parameters + errors);
    return memory;
  }

  double seconds(double macs, double efficiency, double elements) const {
    const double threads = profile_.threads;
    const double computing = macs / (profile_.macs_per_second * threads * efficiency);
    return std::max(computing, kBytes * elements / (profile_.bytes_per_second * threads));
  }

  static void add_phase(ShardCost& cost, Phase phase, double seconds) {
    if (seconds <= 0) return;
    const auto picoseconds = static_cast<int64_t>(std::ceil(seconds * 1e12));
    cost.phases.push_back({phase, "roofline", 0, std::max<int64_t>(picoseconds, 1)});
  }

  static Extent extent_of(const Node& node, std::span<const Block> blocks) {
    const Shape& in = node.input_shapes[0];
    const double input = static_cast<double>(node.work.input_elements);
    const double output = static_cast<double>(node.work.output_elements);
    const double weights = static_cast<double>(node.work.parameters);
    const double macs = static_cast<double>(node.work.forward_macs);
    if (!node.computes || blocks.empty()) return {input, output, weights, macs};
    const auto* conv = std::get_if<Conv2d>(&node.layer.operation);
    const bool grouped = conv != nullptr && conv->groups > 1;
    Extent extent;
    ChannelRange inputs;
    for (const Block& block : blocks) {
      const double input_share = static_cast<double>(block.inputs.size()) / static_cast<double>(in.channels);
      const double output_share = static_cast<double>(block.outputs.size()) / static_cast<double>(node.output.channels);
      // The blocks of a grouped convolution are whole groups: their inputs follow from their outputs.
      const double share = grouped ? output_share : input_share * output_share;
      extent.output += output * output_share;
      extent.weights += weights * share;
      extent.macs += macs * share;
      inputs = hull(inputs, block.inputs);
    }
    extent.input = input * static_cast<double>(inputs.size()) / static_cast<double>(in.channels);
    return extent;
  }

  // Activations of one sample that the shard keeps from F to G: its input, and what lies between its layers. The last
  // output is the next shard's input.
  static double held_elements(const ShardQuestion& question, const Extent& extent) {
    double held = extent.input;
    if (!question.after.empty()) held += extent.output;
    for (size_t i = 0; i + 1 < question.after.size(); ++i) held += static_cast<double>(question.after[i]->work.output_elements);
    return held;
  }

  CpuProfile profile_;
  std::vector<NamedAmount> capacities_;
};

}  // namespace

std::unique_ptr<CostModel> make_cpu_cost_model(const CpuProfile& profile) {
  if (profile.threads < 1 || !(profile.macs_per_second > 0) || !(profile.bytes_per_second > 0))
    fail(ErrorCode::kUsage, "CPU profile: {} threads, {} macs/s, {} bytes/s; all must be above zero", profile.threads,
         profile.macs_per_second, profile.bytes_per_second);
  return std::make_unique<CpuCostModel>(profile);
}

}  // namespace millrace
