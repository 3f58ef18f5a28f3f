#include "core/plan/flows.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/home_routes.h"
#include "core/plan/parts.h"
#include "core/plan/schedule.h"

namespace millrace {

namespace {

constexpr std::string_view kSum = ":sum", kRecord = ":record";  // no layer's name has a colon

}  // namespace

std::string sum_name(std::string_view layer) { return std::string(layer).append(kSum); }

FlowTensor tensor_of(const Graph& graph, const Flow& flow) {
  if (flow.tensor == kInputName) return {};
  const std::string_view name = flow.tensor;
  const auto without = [&](std::string_view ending) { return graph.index_of(name.substr(0, name.size() - ending.size())); };
  if (name.ends_with(kRecord)) return {.node = without(kRecord), .record = true};
  if (const std::string_view layer = layer_of_state(name); !layer.empty()) return {.node = graph.index_of(layer), .state = true};
  if (name.ends_with(kSum)) return {.node = without(kSum), .sum = true};
  return {.node = graph.index_of(name)};
}

Shape sum_shape(const Node& node) {
  Shape shape = node.output;
  shape.channels = sum_channels_of(node.layer.operation, node.output);
  return shape;
}

// Shards that all read the whole input differ by outputs. Of a recurrent layer divided by kind: how x W is.
Split split_of(const Plan& plan, const Graph& graph, const Group& group) {
  if (group.shards.size() == 1 || (divided_by_kind(graph, group) && first_steps_of(plan, group) == 1)) return Split::kWhole;
  const int64_t inputs = graph.node(graph.index_of(group.layer)).input_shapes[0].channels;
  for (const int64_t shard : group.shards)
    for (const Block& block : item(plan.shards, shard).blocks)
      if (block.inputs.size() != inputs) return Split::kInputChannels;
  return Split::kOutputChannels;
}

int64_t weight_elements(const Graph& graph, int64_t index, const Block& block) {
  const Node& node = graph.node(index);
  if (node.parameters.empty()) return 0;
  const ParameterSpec& weight = node.parameters.front();
  if (!node.divides) return weight.elements();
  // Of each pair of channels. Inside a grouped convolution a block covers whole groups, so its inputs per output stay the same.
  const int64_t inputs_per_output = weight.dimensions[1];
  const int64_t taps = weight.elements() / (weight.dimensions[0] * inputs_per_output);
  const bool grouped = traits_of(node.layer.operation).channel_groups > 1;
  return block.outputs.size() * (grouped ? inputs_per_output : block.inputs.size()) * taps;
}

namespace {

// Appends the flows of one link; keeps what it needs to know about every node across links.
class LinkFlows {
 public:
  LinkFlows(const Plan& plan, const Graph& graph) : plan_(plan), graph_(graph), placement_(plan, graph), passes_(passes_of_users(plan)) {
    for (size_t h = 0; h < plan.homes.size(); ++h)
      if (plan.homes[h].home != plan.homes[h].user) away_.push_back(h);
    made_at_home_.resize(plan.homes.size());
    for (const size_t h : away_) {
      const int64_t node = graph.index_of(plan.homes[h].layer);
      const Group& group = placement_.group_of(node);
      made_at_home_[h] = group.layer == plan.homes[h].layer && gradients_of_steps_at(plan, graph, group) == plan.homes[h].home &&
                         item(plan.shards, placement_.shard_on(graph.node(node).group, plan.homes[h].user)).blocks.empty();
    }
  }

  void append(int64_t link, std::vector<Flow>& flows) const {
    const int64_t up = item(plan_.links, link).from;
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
      const Group& group = item(plan_.groups, user.group);
      // The steps of a recurrent layer read sums, not its input.
      const bool head = item(graph_.groups(), user.group).head == static_cast<int64_t>(i);
      const bool by_kind = head && divided_by_kind(graph_, group);
      const int64_t shard = by_kind ? group.shards[first_steps_of(plan_, group) - 1] : group.shards.back();
      if (item(plan_.shards, shard).device > up) last = std::max(last, shard);
    }
    return last;
  }

  // The shard that finishes the node's output.
  int64_t maker_of(int64_t node) const {
    if (node == kNetworkInput) return -1;
    const Group& group = placement_.group_of(node);
    const bool head = item(graph_.groups(), graph_.node(node).group).head == node;
    return head ? group.shards[makers_of(plan_, group) - 1] : group.shards.back();
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
      const int64_t maker = maker_of(node);
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
    if (item(graph_.groups(), head.group).head != node) return;
    if (placement_.first_device_of_group(head.group) > up || placement_.last_device_of_group(head.group) <= up) return;
    const bool forward = direction == Direction::kForward;
    if (!forward && !head.error_needed) return;
    const Group& group = item(plan_.groups, head.group);
    if (divided_by_kind(graph_, group) && placement_.shard_on(head.group, up) >= group.shards[first_steps_of(plan_, group)])
      return append_shared(link, up, node, direction, flows);
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
    flows.push_back(flow);
    if (forward || !head.trained || gradients_of_steps_at(plan_, graph_, group) != up) return;
    flow.stream = Stream::kRecord;
    flow.tensor = record_name(head.layer.name);
    flow.channels = {0, record_channels_of(head)};
    flow.elements_per_sample = flow.channels.size() * sum_shape(head).plane();
    flows.push_back(std::move(flow));
  }

  // Between two devices that share the steps.
  void append_shared(int64_t link, int64_t up, int64_t node, Direction direction, std::vector<Flow>& flows) const {
    const Node& head = graph_.node(node);
    const auto& cell = std::get<Recurrent>(head.layer.operation);
    const Group& group = item(plan_.groups, head.group);
    const bool forward = direction == Direction::kForward;
    const int64_t here = placement_.shard_on(head.group, up), next = placement_.shard_on(head.group, up + 1);
    const auto shard = [&](int64_t index) -> const Shard& { return item(plan_.shards, index); };
    const int64_t steps = sum_shape(head).plane(), gates = gates_of(cell.cell);
    const size_t makers = makers_of(plan_, group);
    const int64_t last = group.shards[makers - 1];
    const auto add = [&](Stream stream, std::string tensor, ChannelRange channels, int64_t elements, int64_t producer, int64_t consumer) {
      Flow flow;
      flow.link = link;
      flow.direction = direction;
      flow.stream = stream;
      flow.tensor = std::move(tensor);
      flow.channels = channels;
      flow.producer_shard = producer;
      flow.consumer_shard = consumer;
      flow.elements_per_sample = elements;
      flow.wire = stream == Stream::kState ? plan_.arithmetic.compute : plan_.arithmetic.wire;  // not rounded: as one device has them
      flows.push_back(std::move(flow));
    };
    const auto tensor = [&](Stream stream, const std::string& name, int64_t begin, int64_t end) {
      if (end > begin) add(stream, name, {begin, end}, (end - begin) * steps, forward ? here : next, forward ? last : here);
    };
    for (int64_t d = 0; d < cell.directions(); ++d) {
      for (int64_t gate = 0; forward && gate < gates; ++gate) {
        const int64_t first = (d * gates + gate) * cell.hidden;
        tensor(Stream::kPartial, sum_name(head.layer.name), first + shard(next).units.begin, first + cell.hidden);
      }
      const int64_t features = d * cell.features();
      if (!forward) tensor(Stream::kError, head.layer.name, features, features + features_of(cell, shard(here).units).end);
    }
    for (const bool errors : {false, true})
      for (const StateRow& row : state_rows_of(cell, errors))
        for (size_t s = first_steps_of(plan_, group); s < makers; ++s) {
          const Shard& source = shard(group.shards[s]);
          if ((errors && !head.error_needed) || (source.device <= up) != forward) continue;
          add(Stream::kState, state_name(head.layer.name, row), channels_of(cell, row, source.units),
              elements_of(cell, row, source.units) * steps, group.shards[s], forward ? last : group.shards[first_steps_of(plan_, group)]);
        }
  }

  void append_parameters(int64_t link, int64_t up, Direction direction, std::vector<Flow>& flows) const {
    for (const size_t slice : away_) {
      const ParameterHome& home = plan_.homes[slice];
      const int64_t low = std::min(home.home, home.user);
      const int64_t high = std::max(home.home, home.user);
      if (low > up || high <= up) continue;
      // Parameters travel from home to user, gradients the other way.
      const bool towards_user = (home.home < home.user) == (direction == Direction::kForward);
      if (!towards_user && made_at_home_[slice]) continue;
      Flow flow;
      flow.link = link;
      flow.direction = direction;
      flow.stream = towards_user ? Stream::kParameter : Stream::kGradient;
      flow.tensor = parameter_name(home);
      flow.home = static_cast<int64_t>(slice);
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
  std::vector<size_t> away_;        // homes of slices that are not stored where they are used
  std::vector<bool> made_at_home_;  // by home: its gradient, of a record
};

}  // namespace

std::vector<Flow> flows_of(const Plan& plan, const Graph& graph) {
  const LinkFlows builder(plan, graph);
  std::vector<Flow> flows;
  for (size_t link = 0; link < plan.links.size(); ++link) builder.append(static_cast<int64_t>(link), flows);
  return flows;
}

}  // namespace millrace
