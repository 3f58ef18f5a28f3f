#include "core/device/roofline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/device/shard_extent.h"

namespace millrace {

namespace {

constexpr double kParameterBytes = 4;

// Per sample.
struct Seconds {
  double forward = 0;
  double error_back = 0;
  double parameter_gradient = 0;

  double all() const { return forward + error_back + parameter_gradient; }
};

struct Memory {
  double fixed = 0;  // activations in flight, errors, parameters of the layers after the sum
  double activations = 0;
  double shared = 0;      // of the activations, in a place for all layers
  double parameters = 0;  // of the layer, with gradient and slots
};

class RooflineCostModel final : public CostModel {
 public:
  explicit RooflineCostModel(Roofline roofline) : roofline_(std::move(roofline)), capacities_{{"memory_bytes", roofline_.memory_bytes}} {}

  std::string device() const override { return roofline_.device; }
  std::string refusal(const Node& node) const override { return roofline_.refusal ? roofline_.refusal(node) : ""; }
  int64_t channel_quantum() const override { return roofline_.channel_quantum; }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return 0; }
  std::vector<Constant> constants() const override { return roofline_.constants; }
  double watts(double) const override { return roofline_.watts; }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    const ShardExtent extent = shard_extent_of(question);
    const Memory memory = memory_of(question, extent);
    ShardDemand demand;
    demand.seconds = seconds_of(question, extent).all();
    demand.amounts[0] = memory.fixed;
    demand.parameters = memory.parameters;
    demand.shared = memory.shared;
    return demand;
  }

  ShardCost cost_of(const ShardQuestion& question) const override {
    const ShardExtent extent = shard_extent_of(question);
    const Seconds seconds = seconds_of(question, extent);
    const Memory memory = memory_of(question, extent);
    ShardCost cost;
    cost.unit = StreamingUnit::kSample;
    add_phase(cost, Phase::kForward, seconds.forward);
    add_phase(cost, Phase::kErrorBack, seconds.error_back);
    add_phase(cost, Phase::kParameterGradient, seconds.parameter_gradient);
    cost.seconds_per_sample = seconds.all();
    cost.resources = {{"memory_bytes", memory.fixed}, {"parameter_memory_bytes", memory.parameters}};
    cost.act_ram_bits = static_cast<int64_t>(8 * memory.activations);
    cost.shared_bytes = memory.shared;
    cost.update_seconds = seconds_of_update(question, extent);
    return cost;
  }

 private:
  Seconds seconds_of(const ShardQuestion& question, const ShardExtent& extent) const {
    const Node& node = *question.node;
    const double batch = static_cast<double>(question.micro_batch);
    const bool looks_up = role_of(node.layer.operation) == Role::kLookUp;
    const double chunks = static_cast<double>(question.time_chunks);
    Seconds result = looks_up ? seconds_of_look_up(node, extent) : seconds_of_products(node, extent, batch, chunks);
    if (extent.steps > 0) add_steps(node, extent, batch, chunks, result);
    const double launch = roofline_.launch_seconds / batch;
    const double launches = launch * static_cast<double>(question.time_chunks);
    result.forward += launches;
    if (result.error_back > 0) result.error_back += launches;
    if (result.parameter_gradient > 0) result.parameter_gradient += launch;
    // F once more in front of the way back through time.
    if (makes_again(question, extent)) (node.input_error_needed ? result.error_back : result.parameter_gradient) += result.forward;
    for (const Node* after : question.after) {
      const double elements = static_cast<double>(after->work.input_elements + after->work.output_elements);
      result.forward += seconds(0, 1, elements) + launch;
      if (after->input_error_needed) result.error_back += seconds(0, 1, 2 * elements) + launch;
      if (after->trained) result.parameter_gradient += seconds(0, 1, static_cast<double>(after->work.parameters)) + launch;
    }
    return result;
  }

  // Every chunk of time reads the weights, of F and E; gradients are made of all of them at once.
  Seconds seconds_of_products(const Node& node, const ShardExtent& extent, double batch, double chunks) const {
    const bool convolves = role_of(node.layer.operation) == Role::kConvolution;
    const PhaseEfficiency efficiency = convolves ? convolution_of(node, batch) : roofline_.dense;
    const double weights = extent.weights / batch;  // read once per micro-batch
    const double elements = extent.inputs + extent.outputs;
    Seconds result;
    result.forward = seconds(extent.macs, efficiency.forward, elements + chunks * weights);
    if (node.input_error_needed) result.error_back = seconds(extent.macs, efficiency.error_back, elements + chunks * weights);
    // Gradients are made apart and then added: written, read, and the sum read and written.
    if (node.trained) result.parameter_gradient = seconds(extent.macs, efficiency.parameter_gradient, elements + 4 * weights);
    return result;
  }

  PhaseEfficiency convolution_of(const Node& node, double batch) const {
    return roofline_.convolution_of ? roofline_.convolution_of(node, static_cast<int64_t>(batch)) : roofline_.convolution;
  }

  // Token ids have no error. A gradient touches the rows that were looked up.
  Seconds seconds_of_look_up(const Node& node, const ShardExtent& extent) const {
    Seconds result;
    result.forward = seconds(0, 1, extent.inputs + 2 * extent.outputs);
    if (node.trained) result.parameter_gradient = seconds(0, 1, extent.inputs + 3 * extent.outputs);
    return result;
  }

  void add_steps(const Node& node, const ShardExtent& extent, double batch, double chunks, Seconds& result) const {
    const PhaseEfficiency& efficiency = roofline_.dense;
    const bool resident = extent.state_weights * roofline_.element_bytes <= roofline_.on_chip_bytes;
    const double reads = resident ? chunks : static_cast<double>(node.output.height);
    const double state_weights = extent.state_weights * reads / batch;
    const double elements = 2 * extent.gates + extent.states + state_weights;
    const double latency = extent.steps * roofline_.step_seconds / batch;
    result.forward += std::max(latency, seconds(extent.state_macs, efficiency.forward, elements));
    // Errors travel back through time whenever somebody needs them, be it the weights of this layer alone.
    const double back = std::max(latency, seconds(extent.state_macs, efficiency.error_back, elements));
    if (node.input_error_needed) {
      result.error_back += back;
    } else if (node.trained) {
      result.parameter_gradient += back;
    }
    if (node.trained)
      result.parameter_gradient += seconds(extent.state_macs, efficiency.parameter_gradient,
                                           extent.gates + extent.states + 4 * (extent.state_weights + extent.biases) / batch);
  }

  Memory memory_of(const ShardQuestion& question, const ShardExtent& extent) const {
    const Node& node = *question.node;
    const double batch = static_cast<double>(question.micro_batch);
    const double copies = node.trained ? 2.0 + question.optimizer_slots : 1.0;
    double parameters = 0;
    for (const Node* after : question.after) parameters += static_cast<double>(after->work.parameters) * copies;
    const double errors = node.error_needed ? (extent.inputs + extent.outputs + extent.states) * batch : 0;
    Memory memory;
    if (makes_again(question, extent)) memory.shared = roofline_.element_bytes * extent.kept * batch;
    const double held = held_elements(question, extent) - (memory.shared > 0 ? extent.kept : 0);
    memory.activations = roofline_.element_bytes * held * batch * static_cast<double>(question.window) + memory.shared;
    memory.parameters = kParameterBytes * extent.parameters() * copies;
    memory.fixed =
        memory.activations + kParameterBytes * parameters + roofline_.element_bytes * errors * static_cast<double>(question.errors_held);
    return memory;
  }

  // Weight and gradient are read and the weight written; so is each slot of the optimizer, which is read, too.
  double seconds_of_update(const ShardQuestion& question, const ShardExtent& extent) const {
    double parameters = question.node->trained ? extent.parameters() : 0;
    double tensors = question.node->trained ? tensors_of(question, extent) : 0;
    for (const Node* after : question.after) {
      if (!after->trained) continue;
      parameters += static_cast<double>(after->work.parameters);
      tensors += static_cast<double>(std::ranges::count_if(after->parameters, &ParameterSpec::trained));
    }
    return kParameterBytes * parameters * (3 + 2 * question.optimizer_slots) / roofline_.bytes_per_second +
           tensors * roofline_.update_launch_seconds;
  }

  // Trained ones that the shard has a part of: biases, and what belongs to the steps of a cell, are the owner's.
  static double tensors_of(const ShardQuestion& question, const ShardExtent& extent) {
    const bool recurs = role_of(question.node->layer.operation) == Role::kRecurrence;
    return static_cast<double>(std::ranges::count_if(question.node->parameters, [&](const ParameterSpec& parameter) {
      const bool meets_inputs = parameter.tensor.starts_with(recurs ? "weight_ih" : "weight");
      return parameter.trained && (meets_inputs ? extent.weights > 0 : question.owner);
    }));
  }

  static bool makes_again(const ShardQuestion& question, const ShardExtent& extent) {
    return question.recompute && extent.steps > 0 && question.node->error_needed;
  }

  // Activations of one sample that the shard keeps from F to G: its input, what lies between its layers, and what
  // the steps of a cell leave. The last output is the next shard's input.
  static double held_elements(const ShardQuestion& question, const ShardExtent& extent) {
    double held = extent.inputs + extent.kept;
    if (!question.after.empty() && extent.steps == 0) held += extent.outputs;
    for (size_t i = 0; i + 1 < question.after.size(); ++i) held += static_cast<double>(question.after[i]->work.output_elements);
    return held;
  }

  double seconds(double macs, double efficiency, double elements) const {
    const double computing = macs / (roofline_.macs_per_second * efficiency);
    return std::max(computing, roofline_.element_bytes * elements / roofline_.bytes_per_second);
  }

  static void add_phase(ShardCost& cost, Phase phase, double seconds) {
    if (seconds <= 0) return;
    const auto picoseconds = static_cast<int64_t>(std::ceil(seconds * 1e12));
    cost.phases.push_back({phase, "roofline", 0, std::max<int64_t>(picoseconds, 1)});
  }

  Roofline roofline_;
  std::vector<NamedAmount> capacities_;
};

}  // namespace

std::unique_ptr<CostModel> make_roofline_cost_model(Roofline roofline) {
  if (!(roofline.macs_per_second > 0) || !(roofline.bytes_per_second > 0) || !(roofline.memory_bytes > 0))
    fail(ErrorCode::kUsage, "device \"{}\": {} macs/s, {} bytes/s, {} bytes of memory; all must be above zero", roofline.device,
         roofline.macs_per_second, roofline.bytes_per_second, roofline.memory_bytes);
  return std::make_unique<RooflineCostModel>(std::move(roofline));
}

}  // namespace millrace
