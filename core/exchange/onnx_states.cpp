// What exporters put around recurrent layers: states to begin with, zeros of a shape that is computed from the input's, and one layer's
// last state picked out of all layers'. Whole numbers are computed here, as a shape is; nothing of it is left in the network.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/index.h"
#include "core/exchange/onnx_graph.h"

namespace millrace {
namespace {

constexpr size_t kLongestShape = 64;

// A list of whole numbers, or one alone.
struct Numbers {
  std::vector<int64_t> values;
  bool single = false;
};

std::optional<Numbers> numbers_of(const OnnxGraph& graph, const std::string& name) {
  const auto found = graph.constants.find(name);
  if (found == graph.constants.end() || !found->second.whole || found->second.dimensions.size() > 1 ||
      found->second.wholes.size() > kLongestShape)
    return std::nullopt;
  return Numbers{found->second.wholes, found->second.dimensions.empty()};
}

void set_numbers(const OnnxNode& node, OnnxGraph& graph, Numbers numbers) {
  OnnxConstant constant{.name = node.output(0), .dimensions = {}, .floats = {}, .wholes = std::move(numbers.values), .whole = true};
  if (!numbers.single) constant.dimensions = {static_cast<int64_t>(constant.wholes.size())};
  if (graph.activations.contains(node.output(0)) || !graph.constants.emplace(node.output(0), std::move(constant)).second)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is made twice; the file is damaged", node.who(), node.output(0));
}

// Where a slice or an index begins, counted from the front.
int64_t from_front(int64_t index, int64_t count) { return std::clamp<int64_t>(index < 0 ? index + count : index, 0, count); }

void convert_shape(OnnxNode& node, OnnxGraph& graph) {
  Numbers all;
  if (graph.is_constant(node.input(0))) {
    all.values = graph.constant(node, 0).dimensions;
  } else {
    const OnnxActivation x = graph.activation(node, 0);
    for (size_t axis = 0; axis < x.axes.size(); ++axis) {
      const int64_t extent = extent_of(graph, x, axis);
      all.values.push_back(extent < 0 ? kOpenExtent : extent);
    }
  }
  const auto count = static_cast<int64_t>(all.values.size());
  const int64_t begin = from_front(node.whole("start", 0), count), end = from_front(node.whole("end", count), count);
  node.no_more();
  set_numbers(node, graph, {{all.values.begin() + begin, all.values.begin() + std::max(begin, end)}});
}

Numbers gathered(const OnnxNode& node, const Numbers& from, const Numbers& indices) {
  Numbers result{.values = {}, .single = indices.single};
  const auto count = static_cast<int64_t>(from.values.size());
  for (const int64_t index : indices.values) {
    if (index < -count || index >= count) node.refuse("number {} of {}", index, count);
    result.values.push_back(item(from.values, from_front(index, count)));
  }
  return result;
}

Numbers sliced(const OnnxNode& node, const OnnxGraph& graph, const Numbers& from) {
  const auto one = [&](int index, int64_t otherwise) {
    if (node.input(index).empty()) return otherwise;
    const auto numbers = numbers_of(graph, node.input(index));
    if (!numbers || numbers->values.size() != 1) node.refuse("a slice whose input {} is not one number", index);
    return numbers->values[0];
  };
  const auto count = static_cast<int64_t>(from.values.size());
  const int64_t begin = from_front(one(1, 0), count), end = from_front(one(2, count), count);
  if (one(3, 0) != 0 || one(4, 1) != 1) node.refuse("a slice with steps, or of another axis than the first, of a list of numbers");
  return {{from.values.begin() + begin, from.values.begin() + std::max(begin, end)}};
}

// Element by element; one number goes with every other. An extent that is open stays so.
Numbers combined(const OnnxNode& node, const Numbers& a, const Numbers& b) {
  const size_t count = std::max(a.values.size(), b.values.size());
  if ((a.values.size() != count && a.values.size() != 1) || (b.values.size() != count && b.values.size() != 1))
    node.refuse("{} and {} numbers", a.values.size(), b.values.size());
  Numbers result{.values = {}, .single = a.single && b.single};
  for (size_t i = 0; i < count; ++i) {
    const int64_t x = a.values[a.values.size() == 1 ? 0 : i], y = b.values[b.values.size() == 1 ? 0 : i];
    int64_t value = kOpenExtent;
    if (x != kOpenExtent && y != kOpenExtent) {
      const std::string& type = node.type();
      if (type == "Div" && y == 0) node.refuse("a division by zero");
      const bool lost = type == "Add"   ? __builtin_add_overflow(x, y, &value)
                        : type == "Sub" ? __builtin_sub_overflow(x, y, &value)
                        : type == "Mul" ? __builtin_mul_overflow(x, y, &value)
                        : y == -1       ? __builtin_sub_overflow(int64_t{0}, x, &value)
                                        : (value = x / y, false);
      if (lost) node.refuse("{} and {}: too large", x, y);
    }
    result.values.push_back(value);
  }
  return result;
}

// A tensor with one value everywhere, at any shape.
std::optional<float> fill_of(const OnnxGraph& graph, const std::string& name) {
  if (const auto found = graph.filled.find(name); found != graph.filled.end()) return found->second;
  const auto found = graph.constants.find(name);
  if (found == graph.constants.end() || found->second.whole || found->second.floats.empty()) return std::nullopt;
  const std::vector<float>& values = found->second.floats;
  if (std::ranges::any_of(values, [&](float value) { return value != values[0]; })) return std::nullopt;
  return values[0];
}

void set_filled(const OnnxNode& node, OnnxGraph& graph, float value) {
  if (graph.is_constant(node.output(0)) || graph.activations.contains(node.output(0)) ||
      !graph.filled.emplace(node.output(0), value).second)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is made twice; the file is damaged", node.who(), node.output(0));
}

bool convert_filled(OnnxNode& node, OnnxGraph& graph) {
  const std::string& type = node.type();
  if (type == "ConstantOfShape") {
    const onnx::TensorProto* const given = node.tensor("value");
    node.no_more();
    if (!numbers_of(graph, node.input(0))) node.refuse("a shape that is not computed from those of the file");
    const OnnxConstant value = given == nullptr ? OnnxConstant{.name = "", .dimensions = {1}, .floats = {0}, .wholes = {}}
                                                : read_onnx_tensor(*given, node.who(), graph.folder);
    if (value.elements() != 1) node.refuse("a value of {} numbers", value.elements());
    const auto shape = numbers_of(graph, node.input(0));
    if (!value.whole) return set_filled(node, graph, value.floats[0]), true;
    if (shape->values.size() != 1 || shape->values[0] < 0 || shape->values[0] > static_cast<int64_t>(kLongestShape))
      node.refuse("whole numbers that are no shape");
    return set_numbers(node, graph, {std::vector<int64_t>(to_size(shape->values[0]), value.wholes[0])}), true;
  }
  const bool reshapes = type == "Expand" || ((type == "Slice" || type == "Unsqueeze" || type == "Squeeze" || type == "Reshape" ||
                                              type == "Gather" || type == "Identity" || type == "Transpose") &&
                                             graph.filled.contains(node.input(0)));
  if (!reshapes) return false;
  const std::optional<float> value = fill_of(graph, node.input(0));
  if (!value) return false;
  return set_filled(node, graph, *value), true;
}

bool convert_numbers(OnnxNode& node, OnnxGraph& graph) {
  const std::string& type = node.type();
  const auto first = numbers_of(graph, node.input(0));
  if (type == "Concat") {
    Numbers all;
    for (int i = 0; i < node.inputs(); ++i) {
      const auto part = numbers_of(graph, node.input(i));
      if (!part || part->single) return false;
      all.values.insert(all.values.end(), part->values.begin(), part->values.end());
    }
    if (all.values.size() > kLongestShape) return false;
    return set_numbers(node, graph, std::move(all)), true;
  }
  if (!first) return false;
  if (type == "Cast") {
    const int64_t to = node.whole("to", 0);
    if (to != onnx::TensorProto::INT64 && to != onnx::TensorProto::INT32) return false;
    return set_numbers(node, graph, *first), true;
  }
  if (type == "Unsqueeze" || type == "Squeeze")
    return set_numbers(node, graph, {first->values, type == "Squeeze" && first->values.size() == 1}), true;
  if (type == "Slice" && !node.has("starts")) return set_numbers(node, graph, sliced(node, graph, *first)), true;
  const auto second = numbers_of(graph, node.input(1));
  if (!second) return false;
  if (type == "Gather") return set_numbers(node, graph, gathered(node, *first, *second)), true;
  if (type == "Add" || type == "Sub" || type == "Mul" || type == "Div")
    return set_numbers(node, graph, combined(node, *first, *second)), true;
  return false;
}

// Last states of several layers, [1, samples, units] each, made one tensor along the axis of one.
bool convert_stack(OnnxNode& node, OnnxGraph& graph) {
  if (node.type() == "Concat") {
    std::vector<OnnxGraph::LastState> parts;
    for (int i = 0; i < node.inputs(); ++i) {
      const auto found = graph.last_states.find(node.input(i));
      if (found == graph.last_states.end() || found->second.steps.axes != "1NC") return false;
      parts.push_back(found->second);
    }
    const int64_t axis = node.whole("axis", 1);
    if (axis != 0 && axis != -3) return false;
    graph.stacks.emplace(node.output(0), std::move(parts));
    return true;
  }
  const auto stack = graph.stacks.find(node.input(0));
  if (node.type() != "Gather" || stack == graph.stacks.end()) return false;
  const int64_t axis = node.whole("axis", 0);
  node.no_more();
  const auto index = numbers_of(graph, node.input(1));
  const auto count = static_cast<int64_t>(stack->second.size());
  if ((axis != 0 && axis != -3) || !index || !index->single || index->values[0] < -count || index->values[0] >= count)
    node.refuse("something else than one layer's last states out of {}", count);
  const OnnxGraph::LastState& picked = item(stack->second, from_front(index->values[0], count));
  return graph.set(node, 0, {graph.net.add(picked.layer, LastStep{}, {picked.steps.value}), "NC"}), true;
}

}  // namespace

void read_last_state(OnnxGraph& graph, const std::string& name) {
  const auto found = graph.last_states.find(name);
  if (found == graph.last_states.end()) return;
  const OnnxGraph::LastState state = found->second;
  graph.last_states.erase(found);
  if (!graph.activations.emplace(name, OnnxActivation{graph.net.add(state.layer, LastStep{}, {state.steps.value}), state.steps.axes})
           .second)
    fail(ErrorCode::kMalformed, "\"{}\" is made twice; the file is damaged", name);
}

bool convert_onnx_states(OnnxNode& node, OnnxGraph& graph) {
  if (convert_stack(node, graph)) return true;
  for (int i = 0; i < node.inputs(); ++i) read_last_state(graph, node.input(i));
  if (node.type() == "Shape") return convert_shape(node, graph), true;
  return convert_filled(node, graph) || convert_numbers(node, graph);
}

}  // namespace millrace
