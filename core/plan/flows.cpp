#include "core/plan/flows.h"

#include <algorithm>
#include <map>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/plan/schedule.h"

namespace millrace {

std::string sum_name(std::string_view layer) { return std::string(layer) + ":sum"; }

Shape sum_shape(const Node& node) {
  Shape shape = node.output;
  if (const auto* recurrent = std::get_if<Recurrent>(&node.layer.operation)) {
    int64_t gates = 1;
    if (recurrent->cell == CellKind::kLstm) gates = 4;
    if (recurrent->cell == CellKind::kGru) gates = 3;
    shape.channels = gates * recurrent->hidden * (recurrent->bidirectional ? 2 : 1);
  }
  return shape;
}

// Shards that all read the whole input differ by outputs.
Split split_of(const Plan& plan, const Graph& graph, const Group& group) {
  if (group.shards.size() == 1) return Split::kWhole;
  const int64_t inputs = graph.node(graph.index_of(group.layer)).input_shapes[0].channels;
  for (const int64_t shard : group.shards)
    for (const Block& block : plan.shards[static_cast<size_t>(shard)].blocks)
      if (block.inputs.size() != inputs) return Split::kInputChannels;
  return Split::kOutputChannels;
}

int64_t weight_elements(const Graph& graph, int64_t node, const Block& block) {
  const Operation& operation = graph.node(node).layer.operation;
  if (const auto* conv = std::get_if<Conv2d>(&operation)) {
    // Inside a grouped convolution a block covers whole conv groups, so its inputs per output stay the same.
    const int64_t inputs = conv->groups == 1 ? block.inputs.size() : graph.node(node).input_shapes[0].channels / conv->groups;
    return block.outputs.size() * inputs * conv->kernel_h * conv->kernel_w;
  }
  if (std::holds_alternative<Dense>(operation)) return block.outputs.size() * block.inputs.size();
  return graph.node(node).parameters.empty() ? 0 : graph.node(node).parameters.front().elements();
}

namespace {

// Appends the flows of one link; keeps what it needs to know about every node across links.
class LinkFlows {
 public:
  LinkFlows(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph), placement_(plan, graph), passes_(passes_of_users(plan)) {
    for (const ParameterHome& home : plan.homes)
      if (home.home != home.user) away_.push_back(&home);
  }

  void append(int64_t link, std::vector<Flow>& flows) const {
    const int64_t up = plan_.links[static_cast<size_t>(link)].from;
    append_tensors(link, up, Direction::kForward, flows);
    append_parameters(link, up, Direction::kForward, flows);
    append_tensors(link, up, Direction::kBackward, flows);
    append_parameters(link, up, Direction::kBackward, flows);
  }

 private:
  // The furthest shard downstream of the link that uses the node's output.
  int64_t last_user(int64_t node, int64_t up) const {
    int64_t last = -1;
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& user = graph_.nodes()[i];
      if (std::find(user.inputs.begin(), user.inputs.end(), node) == user.inputs.end()) continue;
      if (placement_.last_device_of_group(user.group) > up)
        last = std::max(last, plan_.groups[static_cast<size_t>(user.group)].shards.back());
    }
    return last;
  }

  void append_tensors(int64_t link, int64_t up, Direction direction, std::vector<Flow>& flows) const {
    const bool forward = direction == Direction::kForward;
    for (int64_t node = kNetworkInput; node < static_cast<int64_t>(graph_.nodes().size()); ++node) {
      if (node != kNetworkInput) append_sum(link, up, node, direction, flows);
      if (placement_.owner_of(node) > up) continue;
      if (!forward && (node == kNetworkInput || !graph_.node(node).error_needed)) continue;
      const ChannelRange channels = placement_.needed_from(node, up + 1);
      if (channels.empty()) continue;
      Flow flow;
      flow.link = link;
      flow.direction = direction;
      flow.stream = forward ? Stream::kActivation : Stream::kError;
      flow.tensor = graph_.name_of(node);
      flow.channels = channels;
      const int64_t maker = node == kNetworkInput ? -1 : placement_.group_of(node).shards.back();
      const int64_t user = last_user(node, up);
      flow.producer_shard = forward ? maker : user;
      flow.consumer_shard = forward ? user : maker;
      flow.elements_per_sample = channels.size() * graph_.shape_of(node).plane();
      flow.wire = plan_.arithmetic.wire;
      flows.push_back(std::move(flow));
    }
  }

  void append_sum(int64_t link, int64_t up, int64_t node, Direction direction, std::vector<Flow>& flows) const {
    const Node& head = graph_.node(node);
    if (graph_.groups()[static_cast<size_t>(head.group)].head != node) return;
    if (placement_.first_device_of_group(head.group) > up || placement_.last_device_of_group(head.group) <= up) return;
    const bool forward = direction == Direction::kForward;
    if (!forward && !head.error_needed) return;
    Flow flow;
    flow.link = link;
    flow.direction = direction;
    flow.stream = forward ? Stream::kPartial : Stream::kError;
    flow.tensor = sum_name(head.layer.name);
    flow.channels = placement_.summed_until(head.group, up);
    flow.producer_shard = placement_.shard_on(head.group, forward ? up : up + 1);
    flow.consumer_shard = placement_.shard_on(head.group, forward ? up + 1 : up);
    flow.elements_per_sample = flow.channels.size() * sum_shape(head).plane();
    flow.wire = plan_.arithmetic.wire;
    flows.push_back(std::move(flow));
  }

  void append_parameters(int64_t link, int64_t up, Direction direction, std::vector<Flow>& flows) const {
    for (const ParameterHome* slice : away_) {
      const ParameterHome& home = *slice;
      const int64_t low = std::min(home.home, home.user);
      const int64_t high = std::max(home.home, home.user);
      if (low > up || high <= up) continue;
      // Parameters travel from home to user, gradients the other way.
      const bool towards_user = (home.home < home.user) == (direction == Direction::kForward);
      Flow flow;
      flow.link = link;
      flow.direction = direction;
      flow.stream = towards_user ? Stream::kParameter : Stream::kGradient;
      flow.tensor = home.layer + "." + home.tensor;
      flow.channels = {home.offset, home.offset + home.count};
      const int64_t user = placement_.shard_on(graph_.node(graph_.index_of(home.layer)).group, home.user);
      flow.producer_shard = towards_user ? -1 : user;
      flow.consumer_shard = towards_user ? user : -1;
      flow.elements_per_pass = home.count;
      flow.passes_per_mini_batch = towards_user ? passes_.at(home.user) : plan_.micro_batches();
      flow.wire = plan_.arithmetic.wire;
      flows.push_back(std::move(flow));
    }
  }

  // Counting passes walks whole schedules, and a slice crosses many links.
  static std::map<int64_t, int64_t> passes_of_users(const Plan& plan) {
    std::map<int64_t, int64_t> passes;
    for (const ParameterHome& home : plan.homes)
      if (home.home != home.user && !passes.contains(home.user))
        passes[home.user] = parameter_passes_per_mini_batch(schedule_spec(plan, home.user, 1));
    return passes;
  }

  const Plan& plan_;
  const Graph& graph_;
  Placement placement_;
  std::map<int64_t, int64_t> passes_;
  std::vector<const ParameterHome*> away_;  // slices that are not stored where they are used
};

}  // namespace

std::vector<Flow> flows_of(const Plan& plan, const Graph& graph) {
  const LinkFlows builder(plan, graph);
  std::vector<Flow> flows;
  for (size_t link = 0; link < plan.links.size(); ++link) builder.append(static_cast<int64_t>(link), flows);
  return flows;
}

LinkLoad load_of(const Plan& plan, int64_t link, Direction direction) {
  LinkLoad load;
  for (const Flow& flow : plan.flows) {
    if (flow.link != link || flow.direction != direction) continue;
    const int64_t elements = flow.elements_per_sample * plan.mini_batch + flow.elements_per_pass * flow.passes_per_mini_batch;
    load.elements_per_mini_batch += elements;
    load.bits_per_mini_batch += elements * bits_of(flow.wire);
  }
  return load;
}

}  // namespace millrace
