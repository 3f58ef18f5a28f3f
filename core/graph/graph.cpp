#include "core/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/graph/order.h"
#include "core/operation/counting.h"

namespace millrace {

namespace {

// What the layer is by itself: shapes, parameters, work. Who uses it comes later.
Node make_node(const Layer& layer, std::vector<int64_t> inputs, std::vector<Shape> input_shapes) {
  Node node;
  node.output = infer_shape(layer.operation, input_shapes, fmt::format("layer \"{}\"", layer.name));
  node.layer = layer;
  node.inputs = std::move(inputs);
  node.input_shapes = std::move(input_shapes);
  node.parameters = parameters_of(layer.operation, node.input_shapes);
  node.work = work_of(layer.operation, node.input_shapes, node.output);
  node.computes = computes(role_of(layer.operation));
  node.divides = divides(layer.operation);
  node.trained = !layer.frozen && node.work.parameters > 0;
  return node;
}

void check_place(const Node& node) {
  const Traits traits = traits_of(node.layer.operation);
  if (traits.reads_tokens && node.inputs[0] != kNetworkInput)
    fail(ErrorCode::kMismatch, "layer \"{}\" ({}) reads \"{}\", but token ids come from the network's input only", node.layer.name,
         std::string_view(traits.name), node.layer.inputs[0]);
}

}  // namespace

Graph::Graph(Model model) : model_(std::move(model)) {
  try {
    const LinearOrder order = linear_order_of(model_);
    for (size_t i = 0; i < order.layers.size(); ++i) {
      std::vector<Shape> input_shapes;
      for (const int64_t input : order.inputs[i]) input_shapes.push_back(shape_of(input));
      nodes_.push_back(make_node(model_.layers[order.layers[i]], order.inputs[i], std::move(input_shapes)));
      check_place(nodes_.back());
    }
    connect();
    find_end();
  } catch (Error& error) {
    throw error.within(fmt::format("model \"{}\"", model_.name));
  }
  form_groups();
  find_needed_errors();
}

void Graph::connect() {
  for (int64_t index = 0; index < static_cast<int64_t>(nodes_.size()); ++index) {
    names_.emplace(node(index).layer.name, index);
    for (const int64_t input : node(index).inputs) {
      if (input == kNetworkInput) continue;
      std::vector<int64_t>& consumers = item(nodes_, input).consumers;
      if (consumers.empty() || consumers.back() != index) consumers.push_back(index);
    }
  }
}

void Graph::find_end() {
  const int64_t count = static_cast<int64_t>(nodes_.size());
  for (int64_t index = 0; index < count; ++index) {
    const Node& current = node(index);
    if (role_of(current.layer.operation) != Role::kLoss) continue;
    if (!current.consumers.empty())
      fail(ErrorCode::kMalformed, "layer \"{}\" ({}) is read by \"{}\", but nothing follows a loss; read \"{}\" instead",
           current.layer.name, millrace::name_of(current.layer.operation), name_of(current.consumers[0]), name_of(current.inputs[0]));
    if (loss_ >= 0)
      fail(ErrorCode::kMalformed, "layers \"{}\" and \"{}\" are both losses; a model has one, remove the other", name_of(loss_),
           current.layer.name);
    loss_ = index;
  }
  const int64_t end = loss_ >= 0 ? loss_ : count - 1;
  for (int64_t index = 0; index < count; ++index)
    if (index != end && node(index).consumers.empty())
      fail(ErrorCode::kMalformed, "layer \"{}\" ({}): nobody reads its output, and the model ends in \"{}\"; connect it or remove it",
           name_of(index), millrace::name_of(node(index).layer.operation), name_of(end));
}

void Graph::form_groups() {
  for (int64_t index = 0; index < static_cast<int64_t>(nodes_.size()); ++index) {
    Node& current = item(nodes_, index);
    // The operand that is complete last: groups follow each other along the ring, whatever the order of the layers.
    int64_t latest = -1;
    for (const int64_t input : current.inputs)
      if (input != kNetworkInput) latest = std::max(latest, node(input).group);
    if (current.computes || latest < 0) {
      current.group = static_cast<int64_t>(groups_.size());
      groups_.push_back({.head = index, .after = {}});
    } else {
      current.group = latest;
      item(groups_, latest).after.push_back(index);
    }
  }
}

void Graph::find_needed_errors() {
  for (Node& current : nodes_) {
    for (const int64_t input : current.inputs)
      if (input != kNetworkInput && node(input).error_needed) current.input_error_needed = true;
    current.error_needed = current.trained || current.input_error_needed;
  }
}

int64_t Graph::find(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? -1 : found->second;
}

int64_t Graph::index_of(std::string_view name) const {
  const int64_t index = find(name);
  if (index < 0) {
    std::vector<std::string> names;
    for (const Node& known : nodes_) names.push_back(known.layer.name);
    fail(ErrorCode::kNotFound, "model \"{}\" has no layer \"{}\"{}", model_.name, name, layer_suggestion(name, names));
  }
  return index;
}

const std::string& Graph::name_of(int64_t index) const {
  static const std::string input(kInputName);
  return index == kNetworkInput ? input : node(index).layer.name;
}

int64_t Graph::scores() const { return loss_ >= 0 ? node(loss_).inputs[0] : static_cast<int64_t>(nodes_.size()) - 1; }

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (const Node& node : nodes_) count = saturating_sum(count, node.work.parameters);
  return count;
}

Graph::Macs Graph::macs() const {
  Macs macs;
  for (const Node& node : nodes_) {
    const Role role = role_of(node.layer.operation);
    int64_t& kind = role == Role::kConvolution ? macs.conv : role == Role::kProduct ? macs.dense : macs.rnn;
    kind = saturating_sum(kind, node.work.forward_macs);
  }
  return macs;
}

}  // namespace millrace
