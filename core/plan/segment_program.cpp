#include "core/plan/segment_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/flow_load.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace {
namespace {

// Which channels of a value have been written so far, to tell overwriting from adding.
class Coverage {
 public:
  enum class Meets { kNothing, kEverything, kPart };

  Meets add(const ChannelRange& range) {
    int64_t covered = 0;
    for (const ChannelRange& seen : ranges_) covered += std::max<int64_t>(0, intersection(seen, range).size());
    // Ranges are kept disjoint: only what is new is added.
    ChannelRange rest = range;
    std::vector<ChannelRange> fresh;
    std::sort(ranges_.begin(), ranges_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    for (const ChannelRange& seen : ranges_) {
      if (intersection(seen, rest).empty()) continue;
      if (seen.begin > rest.begin) fresh.push_back({rest.begin, seen.begin});
      rest.begin = std::max(rest.begin, seen.end);
    }
    if (!rest.empty()) fresh.push_back(rest);
    ranges_.insert(ranges_.end(), fresh.begin(), fresh.end());
    if (covered == 0) return Meets::kNothing;
    return covered == range.size() ? Meets::kEverything : Meets::kPart;
  }
  int64_t covered() const {
    int64_t total = 0;
    for (const ChannelRange& range : ranges_) total += range.size();
    return total;
  }

 private:
  std::vector<ChannelRange> ranges_;
};

class Compiler {
 public:
  Compiler(const Placement& placement, int64_t device)
      : plan_(placement.plan()), graph_(placement.graph()), placement_(placement), device_(device) {
    program_.device = device;
  }

  SegmentProgram compile() {
    receive_activations();
    if (device_ == 0) load_input();
    for (const auto& [group, shard] : placement_.on(device_)) compile_group(group, item(plan_.shards, shard));
    send_activations();
    settle_sums();
    settle_errors();
    return std::move(program_);
  }

 private:
  int64_t flow_index(int64_t link, Direction direction, const std::string& tensor) const {
    // Flows come link by link: on large rings a walk through all of them, for every device, would be most of the work.
    const auto before = [](const Flow& flow, int64_t other) { return flow.link < other; };
    auto flow = std::lower_bound(plan_.flows.begin(), plan_.flows.end(), link, before);
    for (; flow != plan_.flows.end() && flow->link == link; ++flow) {
      if (!carries_parameters(*flow) && flow->direction == direction && flow->tensor == tensor) return flow - plan_.flows.begin();
    }
    return -1;
  }

  template <typename Visit>
  void for_each_flow(int64_t link, Direction direction, const std::string& tensor, Visit visit) const {
    const auto before = [](const Flow& flow, int64_t other) { return flow.link < other; };
    auto flow = std::lower_bound(plan_.flows.begin(), plan_.flows.end(), link, before);
    for (; flow != plan_.flows.end() && flow->link == link; ++flow)
      if (!carries_parameters(*flow) && flow->direction == direction && flow->tensor == tensor) visit(flow - plan_.flows.begin(), *flow);
  }

  int64_t add_value(int64_t node, bool sum, const ChannelRange& channels) {
    Value value;
    value.node = node;
    value.sum = sum;
    value.channels = channels;
    value.shape = sum ? sum_shape(graph_.node(node)) : graph_.shape_of(node);
    value.shape.channels = channels.size();
    value.error_needed = node != kNetworkInput && graph_.node(node).error_needed;
    program_.values.push_back(value);
    const auto index = static_cast<int64_t>(program_.values.size()) - 1;
    values_[{node, sum}] = index;
    return index;
  }
  int64_t value_of(int64_t node, bool sum = false) const {
    const auto found = values_.find({node, sum});
    MILLRACE_CHECK(found != values_.end(), "device {} has no value for \"{}\"", device_, graph_.name_of(node));
    return found->second;
  }

  void receive(int64_t value, const std::string& tensor, const ChannelRange& channels) {
    Step step;
    step.kind = StepKind::kReceive;
    step.node = item(program_.values, value).node;
    step.output = value;
    step.channels = channels;
    step.forward_flow = flow_index(device_ - 1, Direction::kForward, tensor);
    step.backward_flow = flow_index(device_ - 1, Direction::kBackward, tensor);
    program_.steps.push_back(std::move(step));
  }
  void send(int64_t value, const std::string& tensor, const ChannelRange& channels) {
    Step step;
    step.kind = StepKind::kSend;
    step.node = item(program_.values, value).node;
    step.inputs = {value};
    step.channels = channels;
    step.forward_flow = flow_index(device_, Direction::kForward, tensor);
    step.backward_flow = flow_index(device_, Direction::kBackward, tensor);
    program_.steps.push_back(std::move(step));
  }

  void receive_activations() {
    for (int64_t node = kNetworkInput; node < static_cast<int64_t>(graph_.nodes().size()); ++node) {
      if (placement_.owner_of(node) >= device_) continue;
      const ChannelRange channels = placement_.needed_from(node, device_);
      if (channels.empty()) continue;
      receive(add_value(node, false, channels), graph_.name_of(node), channels);
    }
  }

  void load_input() {
    Step step;
    step.kind = StepKind::kLoad;
    step.output = add_value(kNetworkInput, false, {0, graph_.model().input.channels});
    program_.steps.push_back(std::move(step));
  }

  void send_activations() {
    if (device_ + 1 >= plan_.devices()) return;
    for (int64_t node = kNetworkInput; node < static_cast<int64_t>(graph_.nodes().size()); ++node) {
      if (placement_.owner_of(node) > device_) continue;
      const ChannelRange channels = placement_.needed_from(node, device_ + 1);
      if (!channels.empty()) send(value_of(node), graph_.name_of(node), channels);
    }
  }

  // The activation that alone consumes `node` and runs here right behind it, or -1.
  int64_t fusable_activation(int64_t node) const {
    const Node& producer = graph_.node(node);
    if (producer.consumers.size() != 1) return -1;
    const Node& consumer = graph_.node(producer.consumers[0]);
    if (placement_.owner_of(producer.consumers[0]) != device_) return -1;
    return std::holds_alternative<Activation>(consumer.layer.operation) ? producer.consumers[0] : -1;
  }

  bool has_bias(int64_t node) const {
    for (const ParameterSpec& parameter : graph_.node(node).parameters)
      if (parameter.tensor == "bias") return true;
    return false;
  }

  void compile_group(int64_t g, const Shard& shard) {
    const LayerGroup& layers = item(graph_.groups(), g);
    const bool first = placement_.first_device_of_group(g) == device_;
    const bool last = placement_.last_device_of_group(g) == device_;
    fused_.clear();
    if (shard.after) {
      for (const int64_t node : layers.after)
        if (!fused_.contains(node)) apply(node);
      return;
    }
    if (!graph_.node(layers.head).computes) {
      apply(layers.head);
    } else if (first && last && shard.blocks.size() == 1) {
      compute_whole(layers.head, shard.blocks[0]);
    } else {
      compute_blocks(g, layers.head, shard, first, last);
    }
    const Group& group = item(plan_.groups, g);
    if (!last || makers_of(plan_, group) < group.shards.size()) return;
    for (const int64_t node : layers.after)
      if (!fused_.contains(node)) apply(node);
  }

  void compute_whole(int64_t node, const Block& block) {
    Step step;
    step.kind = StepKind::kCompute;
    step.node = node;
    step.block = block;
    step.bias = has_bias(node);
    step.inputs = {value_of(graph_.node(node).inputs[0])};
    step.output = fused_output(step);
    program_.steps.push_back(std::move(step));
  }

  void compute_blocks(int64_t g, int64_t node, const Shard& shard, bool first, bool last) {
    // Without a bias the last device's sum already is the layer's output; not so the sums of a recurrent layer's gates.
    const bool by_kind = divided_by_kind(graph_, item(plan_.groups, g));
    const bool finish = last && (by_kind || has_bias(node));
    const bool sum_is_output = last && !finish;
    const ChannelRange channels = placement_.summed_until(g, device_);
    const int64_t sum = add_value(node, !sum_is_output, channels);
    const std::string& name = graph_.node(node).layer.name;
    const bool shared = by_kind && !shard.units.empty();
    if (shared) return compute_shared(g, node, shard, sum);
    if (!first) receive(sum, sum_name(name), placement_.summed_until(g, device_ - 1));
    const int64_t gradients = graph_.node(node).trained ? gradients_of_steps_at(plan_, graph_, item(plan_.groups, g)) : -1;
    int64_t record = -1;
    if (gradients == device_ || (gradients >= 0 && last)) record = add_record(node);
    if (record >= 0 && last) receive(record, record_name(name), item(program_.values, record).channels);
    for (const Block& block : shard.blocks) {
      if (!by_kind) compute_block(node, block, -1, sum);
      const int64_t rows = by_kind ? sum_shape(graph_.node(node)).channels / directions_of(graph_.node(node)) : 0;
      for (int64_t d = 0; by_kind && d < directions_of(graph_.node(node)); ++d) {
        const ChannelRange outputs = intersection(block.outputs, {d * rows, (d + 1) * rows});
        if (!outputs.empty()) compute_block(node, {block.inputs, outputs}, d, sum);
      }
    }
    if (!last) send(sum, sum_name(name), channels);
    if (record >= 0 && !last) send(record, record_name(name), item(program_.values, record).channels);
    if (record >= 0 && !last) make_gradients(node, sum, record);
    if (!finish) return;
    Step step;
    step.kind = StepKind::kFinish;
    step.node = node;
    step.bias = true;
    step.inputs = {sum};
    step.record = record;
    step.output = fused_output(step);
    program_.steps.push_back(std::move(step));
  }

  // Steps that devices share: sums of the units from here on arrive, those behind go on; in E errors of the outputs of the units up to
  // here.
  void compute_shared(int64_t g, int64_t node, const Shard& shard, int64_t sum) {
    const Group& group = item(plan_.groups, g);
    const std::string& name = graph_.node(node).layer.name;
    const bool first = &shard == &item(plan_.shards, group.shards[first_steps_of(plan_, group)]);
    const bool last = placement_.last_device_of_group(g) == device_;
    const auto cross = [&](StepKind kind, int64_t value, const std::string& tensor, int64_t link, Direction direction) {
      for_each_flow(link, direction, tensor, [&](int64_t index, const Flow& flow) {
        Step step;
        step.kind = kind;
        step.node = node;
        if (kind == StepKind::kReceive) step.output = value;
        if (kind == StepKind::kSend) step.inputs = {value};
        step.channels = flow.channels;
        (direction == Direction::kForward ? step.forward_flow : step.backward_flow) = index;
        program_.steps.push_back(std::move(step));
      });
    };
    Step step;
    if (first) {
      receive(sum, sum_name(name), item(program_.values, sum).channels);
      step.record = add_record(node);
      receive(step.record, record_name(name), item(program_.values, step.record).channels);
    } else {
      item(program_.values, sum).error_needed = false;  // the first device knows all of them
      cross(StepKind::kReceive, sum, sum_name(name), device_ - 1, Direction::kForward);
    }
    if (!last) cross(StepKind::kSend, sum, sum_name(name), device_, Direction::kForward);
    step.kind = StepKind::kFinish;
    step.node = node;
    step.bias = true;
    step.inputs = {sum};
    step.units = shard.units;
    const auto& cell = std::get<Recurrent>(graph_.node(node).layer.operation);
    for (const bool errors : {false, true})
      for (const StateRow& row : state_rows_of(cell, errors)) {
        StateFlows& flows = (errors ? step.errors : step.states).emplace_back();
        for (const bool upstream : {false, true}) {
          const int64_t link = upstream ? device_ - 1 : device_;
          if (upstream ? first : last) continue;
          for_each_flow(link, upstream ? Direction::kForward : Direction::kBackward, state_name(name, row),
                        [&](int64_t index, const Flow&) { flows.in.push_back(index); });
          for_each_flow(link, upstream ? Direction::kBackward : Direction::kForward, state_name(name, row),
                        [&](int64_t index, const Flow& flow) {
                          if (flow.channels == channels_of(cell, row, shard.units)) flows.out.push_back(index);
                        });
        }
      }
    const int64_t output = add_value(node, false, {0, graph_.shape_of(node).channels});
    step.output = output;
    program_.steps.push_back(std::move(step));
    if (!first) cross(StepKind::kReceive, output, name, device_ - 1, Direction::kBackward);
    if (!last) cross(StepKind::kSend, output, name, device_, Direction::kBackward);
  }

  int64_t add_record(int64_t node) {
    Value value;
    value.node = node;
    value.record = true;
    value.channels = {0, record_channels_of(graph_.node(node))};
    value.shape = sum_shape(graph_.node(node));
    value.shape.channels = value.channels.size();
    value.error_needed = true;
    program_.values.push_back(value);
    return static_cast<int64_t>(program_.values.size()) - 1;
  }
  void make_gradients(int64_t node, int64_t sum, int64_t record) {
    Step step;
    step.kind = StepKind::kGradient;
    step.node = node;
    step.inputs = {sum};
    step.record = record;
    program_.steps.push_back(std::move(step));
  }

  void compute_block(int64_t node, const Block& block, int64_t direction, int64_t sum) {
    Step step;
    step.kind = StepKind::kCompute;
    step.node = node;
    step.block = block;
    step.direction = direction;
    step.inputs = {value_of(graph_.node(node).inputs[0])};
    step.output = sum;
    program_.steps.push_back(std::move(step));
  }

  void apply(int64_t node) {
    Step step;
    step.kind = StepKind::kApply;
    step.node = node;
    for (const int64_t input : graph_.node(node).inputs) step.inputs.push_back(value_of(input));
    step.output = traits_of(graph_.node(node).layer.operation).fuses_activation
                      ? fused_output(step)
                      : add_value(node, false, {0, graph_.shape_of(node).channels});
    program_.steps.push_back(std::move(step));
  }

  // The output of a step, behind the activation where one can be fused.
  int64_t fused_output(Step& step) {
    step.activation = fusable_activation(step.node);
    const int64_t output = step.activation >= 0 ? step.activation : step.node;
    if (step.activation >= 0) fused_.insert(step.activation);
    return add_value(output, false, {0, graph_.shape_of(output).channels});
  }

  // Which compute steps overwrite their sum and which add to it.
  void settle_sums() {
    std::map<int64_t, Coverage> covered;
    std::map<int64_t, bool> mixed;
    for (const Step& step : program_.steps) {
      if (step.kind != StepKind::kCompute && step.kind != StepKind::kReceive) continue;
      const ChannelRange& range = step.kind == StepKind::kCompute ? step.block.outputs : step.channels;
      if (covered[step.output].add(range) == Coverage::Meets::kPart) mixed[step.output] = true;
    }
    covered.clear();
    for (Step& step : program_.steps) {
      if (step.kind != StepKind::kCompute && step.kind != StepKind::kReceive) continue;
      Value& value = item(program_.values, step.output);
      const bool compute = step.kind == StepKind::kCompute;
      const Coverage::Meets meets = covered[step.output].add(compute ? step.block.outputs : step.channels);
      if (mixed[step.output]) value.zero_first = true;
      if (compute) step.adds = value.zero_first || meets == Coverage::Meets::kEverything;
    }
  }

  ChannelRange error_range(const Step& step, size_t input) const {
    if (step.kind == StepKind::kCompute) return step.block.inputs;
    if (step.kind == StepKind::kSend) return step.channels;
    return item(program_.values, step.inputs[input]).channels;
  }
  bool contributes(const Step& step, size_t input) const {
    const Value& value = item(program_.values, step.inputs[input]);
    if (!value.error_needed || step.kind == StepKind::kGradient) return false;
    return step.kind != StepKind::kSend || step.backward_flow >= 0;
  }

  // Walks E's order: who starts an error and who adds to it.
  void settle_errors() {
    std::map<int64_t, Coverage> covered;
    for (const bool assign : {false, true}) {
      covered.clear();
      for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
        step->error_adds.assign(step->inputs.size(), 0);
        for (size_t input = 0; input < step->inputs.size(); ++input) {
          if (!contributes(*step, input)) continue;
          Value& value = item(program_.values, step->inputs[input]);
          const Coverage::Meets meets = covered[step->inputs[input]].add(error_range(*step, input));
          if (meets == Coverage::Meets::kPart) value.zero_error_first = true;
          if (assign) step->error_adds[input] = value.zero_error_first || meets == Coverage::Meets::kEverything ? 1 : 0;
        }
      }
      // Channels nobody contributes to still have an error: zero.
      for (size_t v = 0; v < program_.values.size(); ++v) {
        Value& value = program_.values[v];
        if (value.error_needed && !is_loss(value) && covered[static_cast<int64_t>(v)].covered() < value.channels.size())
          value.zero_error_first = true;
      }
    }
  }
  bool is_loss(const Value& value) const { return value.node == graph_.loss() && !value.sum; }

  const Plan& plan_;
  const Graph& graph_;
  const Placement& placement_;
  int64_t device_;
  SegmentProgram program_;
  std::map<std::pair<int64_t, bool>, int64_t> values_;
  std::set<int64_t> fused_;
};

bool runs_something(const Step& step) {
  return step.kind == StepKind::kCompute || step.kind == StepKind::kFinish || step.kind == StepKind::kApply;
}

std::string value_text(const SegmentProgram& program, int64_t index, const Graph& graph) {
  const Value& value = item(program.values, index);
  const std::string& name = graph.name_of(value.node);
  return fmt::format("{}{}", value.sum ? sum_name(name) : value.record ? record_name(name) : name, text_of(value.channels));
}

}  // namespace

SegmentProgram compile_segment(const Placement& placement, int64_t device) { return Compiler(placement, device).compile(); }

SegmentProgram compile_segment(const Plan& plan, const Graph& graph, int64_t device) { return compile_segment({plan, graph}, device); }

int64_t shared_step_of(const SegmentProgram& program) {
  const auto found = std::ranges::find_if(program.steps, [](const Step& step) { return !step.units.empty(); });
  return found == program.steps.end() ? -1 : found - program.steps.begin();
}

namespace {

// What neither this device's steps make nor its sums are.
bool passes_by(const SegmentProgram& program, const Step& step) {
  if (step.kind != StepKind::kReceive && step.kind != StepKind::kSend) return false;
  const int64_t index = step.kind == StepKind::kReceive ? step.output : step.inputs[0];
  const Value& value = item(program.values, index);
  if (value.sum || value.record) return false;
  const auto makes = [&](const Step& other) { return other.output == index && other.kind != StepKind::kReceive; };
  return std::ranges::none_of(program.steps, makes);
}

}  // namespace

// What comes before the shared steps in F follows them in E. What passes by waits for none of them.
bool crosses_first(const SegmentProgram& program, int64_t step, bool forward) {
  return passes_by(program, item(program.steps, step)) || (step < shared_step_of(program)) == forward;
}

std::string text_of(const SegmentProgram& program, const Graph& graph) {
  static constexpr std::string_view kNames[] = {"receive", "load", "compute", "finish", "apply", "send", "gradient"};
  std::string text = fmt::format("device {}\n", program.device);
  for (const Step& step : program.steps) {
    text += fmt::format("  {:8}", item(kNames, step.kind));
    if (step.output >= 0) text += value_text(program, step.output, graph);
    if (runs_something(step)) text += step.adds ? " +=" : " =";
    if (step.kind == StepKind::kCompute || step.kind == StepKind::kApply) text += ' ' + graph.name_of(step.node);
    if (step.kind == StepKind::kCompute) text += fmt::format(" {} x {}", text_of(step.block.inputs), text_of(step.block.outputs));
    if (step.kind == StepKind::kReceive) text += fmt::format(" from upstream {}", text_of(step.channels));
    if (step.kind == StepKind::kSend) text += text_of(step.channels) + " of";
    for (const int64_t input : step.inputs) text += fmt::format(" {}", value_text(program, input, graph));
    if (step.bias) text += " +bias";
    if (!step.units.empty()) text += " of cells " + text_of(step.units);
    if (step.record >= 0) text += " with " + value_text(program, step.record, graph);
    if (step.activation >= 0) text += fmt::format(" then {}", graph.name_of(step.activation));
    text += '\n';
  }
  return text;
}

}  // namespace millrace
