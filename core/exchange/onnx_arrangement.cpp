// Operators that only rearrange: they become a flatten, or another order of the axes, or nothing.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/index.h"
#include "core/exchange/onnx_graph.h"

namespace millrace {

int64_t extent_of(const OnnxGraph& graph, const OnnxActivation& x, size_t axis) {
  const Shape& shape = x.value.shape;
  switch (x.axes[axis]) {
    case 'C': return shape.channels;
    case 'H': return shape.height;
    case 'W': return shape.width;
    case 'D': return 2;
    case 'c': return shape.channels / 2;
    case 'N': return graph.samples;  // -1 where it is open
    default: return 1;
  }
}

namespace {

// Axes without those that hold one: N and C stay.
std::string without_ones(const OnnxGraph& graph, const OnnxActivation& x) {
  std::string axes;
  for (size_t i = 0; i < x.axes.size(); ++i)
    if (x.axes[i] == 'N' || x.axes[i] == 'C' || extent_of(graph, x, i) != 1) axes += x.axes[i];
  return axes;
}

// Everything of a sample in one row of features, in the order C, H, W.
void flatten(OnnxNode& node, OnnxGraph& graph, const OnnxActivation& x) {
  if (x.value.shape.plane() == 1 && without_ones(graph, x) == "NC") return graph.set(node, 0, {x.value, "NC"});
  if (x.axes != "NCHW" && x.axes != "NCH")
    node.refuse("axes {} are made one; samples of channels x rows (x columns) were expected", x.axes);
  graph.set(node, 0, {graph.net.add(node.layer_name(), Flatten{}, {x.value}), "NC"});
}

void convert_flatten(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  int64_t axis = node.whole("axis", 1);
  node.no_more();
  if (axis < 0) axis += static_cast<int64_t>(x.axes.size());
  if (axis != 1 || x.axes.front() != 'N') node.refuse("from axis {} of {}, all but the samples are made one", axis, x.axes);
  flatten(node, graph, x);
}

std::vector<int64_t> numbers_of(OnnxNode& node, OnnxGraph& graph, const char* attribute, int input) {
  if (node.has(attribute) || node.input(input).empty()) return node.wholes(attribute);
  const OnnxConstant& constant = graph.constant(node, input);
  if (!constant.whole) node.refuse("its input {} holds no whole numbers", input);
  std::vector<int64_t> numbers = constant.wholes;
  std::ranges::replace(numbers, kOpenExtent, int64_t{-1});
  return numbers;
}

void convert_reshape(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  std::vector<int64_t> wanted = numbers_of(node, graph, "shape", 1);
  if (node.whole("allowzero", 0) != 0) node.refuse("allowzero");
  node.ignore("consumed_inputs");
  node.no_more();
  std::vector<int64_t> extents;
  for (size_t i = 0; i < x.axes.size(); ++i) extents.push_back(extent_of(graph, x, i));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] == 0 && i < extents.size()) wanted[i] = extents[i];
  const Shape& shape = x.value.shape;
  const auto is = [](int64_t asked, int64_t extent) { return asked == extent || asked == -1; };
  const auto same = [&](const std::vector<int64_t>& target) {
    if (target.size() != wanted.size() || std::ranges::count(wanted, -1) > (graph.samples < 0 ? 2 : 1)) return false;
    for (size_t i = 0; i < target.size(); ++i)
      if (!is(wanted[i], target[i])) return false;
    return true;
  };
  if (same(extents)) return graph.set(node, 0, x);
  // Two directions of a recurrent layer side by side.
  if (x.axes.ends_with("Dc")) {
    std::vector<int64_t> joined(extents.begin(), extents.end() - 2);
    joined.push_back(shape.channels);
    if (same(joined)) return graph.set(node, 0, {x.value, x.axes.substr(0, x.axes.size() - 2) + "C"});
  }
  // Channels of each column side by side: the features of a step.
  if ((x.axes == "HNCW" && same({shape.height, graph.samples, shape.channels * shape.width})) ||
      (x.axes == "NHCW" && same({graph.samples, shape.height, shape.channels * shape.width})))
    return graph.set(node, 0, {graph.net.add(node.layer_name(), ToSequence{}, {x.value}), x.axes.substr(0, 2) + "C"});
  if (x.axes.front() == 'N' && same({graph.samples, shape.elements()})) return flatten(node, graph, x);
  // Axes of one come and go.
  const std::string kept = without_ones(graph, x);
  std::string axes;
  size_t next = 0;
  for (const int64_t extent : wanted) {
    const int64_t here = next < kept.size() ? extent_of(graph, {x.value, kept.substr(next, 1)}, 0) : 1;
    if (next < kept.size() && is(extent, here)) {
      axes += kept[next++];
    } else if (extent == 1) {
      axes += '1';
    } else {
      next = kept.size() + 1;
      break;
    }
  }
  if (next != kept.size())
    node.refuse("axes {} of [{}] become [{}], which rearranges", x.axes, fmt::join(extents, ", "), fmt::join(wanted, ", "));
  // A vector that becomes a map of one pixel.
  if (axes == "NC11") axes = "NCHW";
  if (axes == "NC1") axes = "NCH";
  graph.set(node, 0, {x.value, axes});
}

void convert_transpose(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  std::vector<int64_t> order = node.wholes("perm");
  node.no_more();
  const size_t rank = x.axes.size();
  if (order.empty())
    for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  bool permutes = sorted.size() == rank;
  for (size_t i = 0; permutes && i < rank; ++i) permutes = sorted[i] == static_cast<int64_t>(i);
  if (!permutes) node.refuse("perm [{}] for axes {}", fmt::join(order, ", "), x.axes);
  std::string axes;
  for (const int64_t axis : order) axes += item(x.axes, axis);
  graph.set(node, 0, {x.value, axes});
}

void convert_squeeze(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  const std::vector<int64_t> given = numbers_of(node, graph, "axes", 1);
  node.no_more();
  const auto rank = static_cast<int64_t>(x.axes.size());
  if (given.empty()) node.refuse("without saying which axes");
  std::string axes = x.axes;
  for (const int64_t one : given) {
    const int64_t axis = one < 0 ? one + rank : one;
    if (axis < 0 || axis >= rank || item(x.axes, axis) == 'N' || extent_of(graph, x, to_size(axis)) != 1)
      node.refuse("axis {} of {} does not hold one", one, x.axes);
    item(axes, axis) = ' ';
  }
  std::erase(axes, ' ');
  graph.set(node, 0, {x.value, axes});
}

void convert_unsqueeze(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  std::vector<int64_t> given = numbers_of(node, graph, "axes", 1);
  node.no_more();
  const auto rank = static_cast<int64_t>(x.axes.size() + given.size());
  for (int64_t& axis : given) {
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) node.refuse("axes [{}] for {}", fmt::join(given, ", "), x.axes);
  }
  std::ranges::sort(given);
  std::string axes = x.axes;
  for (const int64_t axis : given) axes.insert(to_size(std::min<int64_t>(axis, static_cast<int64_t>(axes.size()))), "1");
  if (axes == "NC11" || axes == "NCH1") axes = "NCHW";
  graph.set(node, 0, {x.value, axes});
}

void convert_identity(OnnxNode& node, OnnxGraph& graph) {
  node.ignore("consumed_inputs");
  node.no_more();
  if (const auto found = graph.constants.find(node.input(0)); found != graph.constants.end()) {
    OnnxConstant copy = found->second;
    graph.constants.emplace(node.output(0), std::move(copy));
    return;
  }
  // What follows a softmax may still be renamed.
  const auto found = graph.activations.find(node.input(0));
  if (found != graph.activations.end()) return graph.set(node, 0, OnnxActivation(found->second));
  graph.activation(node, 0);
}

void convert_constant(OnnxNode& node, OnnxGraph& graph) {
  const onnx::TensorProto* const value = node.tensor("value");
  if (value == nullptr) node.refuse("a constant that is no tensor");
  node.no_more();
  OnnxConstant constant = read_onnx_tensor(*value, node.who(), graph.folder);
  constant.name = node.output(0);
  if (!graph.constants.emplace(node.output(0), std::move(constant)).second)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is made twice; the file is damaged", node.who(), node.output(0));
}

}  // namespace

bool convert_onnx_arrangement(OnnxNode& node, OnnxGraph& graph) {
  const std::string& type = node.type();
  if (type == "Flatten") return convert_flatten(node, graph), true;
  if (type == "Reshape") return convert_reshape(node, graph), true;
  if (type == "Transpose") return convert_transpose(node, graph), true;
  if (type == "Squeeze") return convert_squeeze(node, graph), true;
  if (type == "Unsqueeze") return convert_unsqueeze(node, graph), true;
  if (type == "Identity") return convert_identity(node, graph), true;
  if (type == "Constant") return convert_constant(node, graph), true;
  return false;
}

}  // namespace millrace
