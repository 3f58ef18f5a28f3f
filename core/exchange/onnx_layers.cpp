// Operators that become layers, but for the recurrent ones.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/index.h"
#include "core/exchange/onnx_graph.h"

namespace millrace {
namespace {

constexpr const char* kAsItIs = "as it is";

// The places of a window along rows and columns; of one dimension, along rows alone.
struct OnnxWindow {
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
};

// Maps of features in the file's usual order; anything else was rearranged in a way that we do not follow.
void expect_maps(const OnnxNode& node, const OnnxActivation& x) {
  if (x.axes != "NCHW" && x.axes != "NCH")
    node.refuse("its input has axes {}, samples of channels x rows (x columns) were expected; what stands before it rearranges", x.axes);
}

std::pair<int64_t, int64_t> pair_of(const OnnxNode& node, const char* name, const std::vector<int64_t>& values, size_t axes,
                                    int64_t otherwise) {
  if (values.empty()) return {otherwise, otherwise};
  if (values.size() != axes || std::ranges::any_of(values, [](int64_t v) { return v < 0 || v > (1 << 20); }))
    node.refuse("{} [{}] for {} axes", name, fmt::join(values, ", "), axes);
  return {values[0], axes == 2 ? values[1] : (otherwise == 0 ? 0 : 1)};
}

OnnxWindow window_of(OnnxNode& node, const OnnxActivation& x, std::vector<int64_t> kernel, bool dilates) {
  const size_t axes = x.axes.size() - 2;
  const std::vector<int64_t> given = node.wholes("kernel_shape");
  if (kernel.empty()) kernel = given;
  if (kernel.size() != axes) node.refuse("a window over {} axes of an input with {}", kernel.size(), axes);
  if (!given.empty() && given != kernel)
    node.refuse("kernel_shape [{}] beside weights of [{}]", fmt::join(given, ", "), fmt::join(kernel, ", "));
  OnnxWindow window;
  std::tie(window.kernel_h, window.kernel_w) = pair_of(node, "kernel_shape", kernel, axes, 1);
  std::tie(window.stride_h, window.stride_w) = pair_of(node, "strides", node.wholes("strides"), axes, 1);
  std::tie(window.dilation_h, window.dilation_w) = pair_of(node, "dilations", node.wholes("dilations"), axes, 1);
  if (!dilates && (window.dilation_h != 1 || window.dilation_w != 1)) node.refuse("a pooling with dilations");
  std::vector<int64_t> pads = node.wholes("pads");
  const std::string automatic = node.word("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    pads.assign(2 * axes, 0);
    const int64_t extents[] = {x.value.shape.height, x.value.shape.width};
    const int64_t kernels[] = {window.kernel_h, window.kernel_w}, strides[] = {window.stride_h, window.stride_w};
    const int64_t dilations[] = {window.dilation_h, window.dilation_w};
    for (size_t a = 0; a < axes; ++a) {
      if (strides[a] < 1) node.refuse("a stride of {}", strides[a]);
      const int64_t outputs = (extents[a] + strides[a] - 1) / strides[a];
      const int64_t all = std::max<int64_t>(0, (outputs - 1) * strides[a] + dilations[a] * (kernels[a] - 1) + 1 - extents[a]);
      const int64_t less = all / 2;
      pads[a] = automatic == "SAME_UPPER" ? less : all - less;
      pads[a + axes] = all - pads[a];
    }
  } else if (automatic != "NOTSET" && automatic != "VALID" && !automatic.empty()) {
    node.refuse("auto_pad {}", automatic);
  }
  if (pads.empty()) return window;
  if (pads.size() != 2 * axes || std::ranges::any_of(pads, [](int64_t v) { return v < 0 || v > (1 << 20); }))
    node.refuse("pads [{}] for {} axes", fmt::join(pads, ", "), axes);
  for (size_t a = 0; a < axes; ++a)
    if (pads[a] != pads[a + axes]) node.refuse("pads of {} before and {} behind, equal ones are needed", pads[a], pads[a + axes]);
  window.pad_h = pads[0];
  window.pad_w = axes == 2 ? pads[1] : 0;
  return window;
}

void convert_convolution(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  expect_maps(node, x);
  const OnnxConstant& weight = graph.weights(node, 1);
  if (weight.dimensions.size() != x.axes.size())
    node.refuse("weights of [{}] for an input with axes {}", fmt::join(weight.dimensions, ", "), x.axes);
  const OnnxWindow w = window_of(node, x, {weight.dimensions.begin() + 2, weight.dimensions.end()}, true);
  const int64_t groups = node.whole("group", 1);
  node.no_more();
  const bool bias = !node.input(2).empty();
  const Conv2d conv{.out_channels = weight.dimensions[0],
                    .kernel_h = w.kernel_h,
                    .kernel_w = w.kernel_w,
                    .stride_h = w.stride_h,
                    .stride_w = w.stride_w,
                    .pad_h = w.pad_h,
                    .pad_w = w.pad_w,
                    .dilation_h = w.dilation_h,
                    .dilation_w = w.dilation_w,
                    .groups = groups,
                    .bias = bias};
  const NetworkValue y = graph.net.add(node.layer_name(), conv, {x.value});
  graph.net.set_weight(y.layer, "weight", {weight.dimensions[0], weight.dimensions[1], w.kernel_h, w.kernel_w}, weight.floats, weight.name,
                       x.axes.size() == 4 ? kAsItIs : "an axis of 1 behind");
  if (bias) {
    const OnnxConstant& b = graph.weights(node, 2);
    graph.net.set_weight(y.layer, "bias", b.dimensions, b.floats, b.name, kAsItIs);
  }
  graph.set(node, 0, {y, x.axes});
}

void convert_pooling(OnnxNode& node, OnnxGraph& graph, PoolKind kind) {
  const OnnxActivation x = graph.activation(node, 0);
  expect_maps(node, x);
  const OnnxWindow w = window_of(node, x, {}, false);
  Pool2d pool{.kind = kind,
              .kernel_h = w.kernel_h,
              .kernel_w = w.kernel_w,
              .stride_h = w.stride_h,
              .stride_w = w.stride_w,
              .pad_h = w.pad_h,
              .pad_w = w.pad_w,
              .ceil_mode = node.whole("ceil_mode", 0) != 0};
  if (kind == PoolKind::kAverage) pool.count_include_pad = node.whole("count_include_pad", 0) != 0;
  if (kind == PoolKind::kMax && node.whole("storage_order", 0) != 0) node.refuse("storage_order of columns first");
  // The two disagree about what a partial window that reaches into the padding counts.
  if (kind == PoolKind::kAverage && pool.ceil_mode && pool.count_include_pad) node.refuse("ceil_mode beside count_include_pad");
  node.no_more();
  graph.refuse_outputs_from(node, 1);
  graph.set(node, 0, {graph.net.add(node.layer_name(), pool, {x.value}), x.axes});
}

void convert_global_pooling(OnnxNode& node, OnnxGraph& graph, PoolKind kind) {
  const OnnxActivation x = graph.activation(node, 0);
  expect_maps(node, x);
  node.no_more();
  graph.set(node, 0, {graph.net.add(node.layer_name(), GlobalPool{.kind = kind}, {x.value}), x.axes});
}

void convert_activation(OnnxNode& node, OnnxGraph& graph, ActivationKind kind) {
  const OnnxActivation x = graph.activation(node, 0);
  Activation activation{.kind = kind};
  if (kind == ActivationKind::kLeakyRelu) activation.slope = static_cast<double>(node.number("alpha", 0.01F));
  node.ignore("consumed_inputs");
  node.no_more();
  graph.set(node, 0, {graph.net.add(node.layer_name(), activation, {x.value}), x.axes});
}

// Along channels, whatever the order of the axes.
void convert_batch_norm(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  const BatchNorm norm{.epsilon = static_cast<double>(node.number("epsilon", 1e-5F)),
                       .momentum = static_cast<double>(1 - node.number("momentum", 0.9F))};
  if (node.whole("training_mode", 0) != 0) node.refuse("in training mode; export the network for inference");
  if (node.opset() < 7 && node.whole("is_test", 0) == 0) node.refuse("in training mode (is_test 0); export the network for inference");
  if (node.whole("spatial", 1) == 0) node.refuse("statistics of every place (spatial 0)");
  node.ignore("consumed_inputs");
  node.no_more();
  graph.refuse_outputs_from(node, 1);
  if (x.axes.size() < 2 || x.axes[1] != 'C') node.refuse("its input has axes {}, channels were expected as the second", x.axes);
  const NetworkValue y = graph.net.add(node.layer_name(), norm, {x.value});
  const char* const tensors[] = {"weight", "bias", "running_mean", "running_var"};
  for (int i = 0; i < 4; ++i) {
    const OnnxConstant& values = graph.weights(node, i + 1);
    graph.net.set_weight(y.layer, tensors[i], values.dimensions, values.floats, values.name, kAsItIs);
  }
  graph.set(node, 0, {y, x.axes});
}

void convert_local_response_norm(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  expect_maps(node, x);
  const LocalResponseNorm norm{.size = node.whole("size", 0),
                               .alpha = static_cast<double>(node.number("alpha", 1e-4F)),
                               .beta = static_cast<double>(node.number("beta", 0.75F)),
                               .k = static_cast<double>(node.number("bias", 1.0F))};
  node.no_more();
  if (norm.size % 2 == 0) node.refuse("an even size of {} channels, which reaches further to one side", norm.size);
  graph.set(node, 0, {graph.net.add(node.layer_name(), norm, {x.value}), x.axes});
}

void convert_dropout(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  double probability = static_cast<double>(node.number("ratio", 0.5F));
  if (!node.input(1).empty()) {
    const OnnxConstant& ratio = graph.weights(node, 1);
    if (ratio.floats.size() != 1) node.refuse("a ratio of {} numbers", ratio.elements());
    probability = static_cast<double>(ratio.floats[0]);
  }
  if (!node.input(2).empty()) {
    const OnnxConstant& training = graph.constant(node, 2);
    if (training.wholes != std::vector<int64_t>{0}) node.refuse("in training mode; export the network for inference");
  }
  node.ignore("is_test");
  node.ignore("seed");
  node.ignore("consumed_inputs");
  node.no_more();
  graph.refuse_outputs_from(node, 1);
  graph.set(node, 0, {graph.net.add(node.layer_name(), Dropout{.probability = probability}, {x.value}), x.axes});
}

// Features last, of samples or of steps.
void expect_features_last(const OnnxNode& node, const OnnxActivation& x) {
  if (x.axes != "NC" && x.axes != "NHC" && x.axes != "HNC")
    node.refuse("its input has axes {}, features were expected as the last; a Flatten before it makes them", x.axes);
}

void convert_gemm(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  if (x.axes != "NC") node.refuse("its input has axes {}, samples of features were expected", x.axes);
  const OnnxConstant& b = graph.weights(node, 1);
  const float alpha = node.number("alpha", 1), beta = node.number("beta", 1);
  if (node.whole("transA", 0) != 0) node.refuse("transA, which turns samples into features");
  const bool is_transposed = node.whole("transB", 0) != 0;
  node.ignore("broadcast");
  node.no_more();
  if (b.dimensions.size() != 2) node.refuse("weights of [{}]", fmt::join(b.dimensions, ", "));
  const int64_t in = b.dimensions[is_transposed ? 1 : 0], out = b.dimensions[is_transposed ? 0 : 1];
  const bool bias = !node.input(2).empty();
  const NetworkValue y = graph.net.add(node.layer_name(), Dense{.out_features = out, .bias = bias}, {x.value});
  std::vector<float> weight = is_transposed ? b.floats : transposed(b.floats, in, out);
  for (float& value : weight) value *= alpha;
  graph.net.set_weight(y.layer, "weight", {out, in}, weight, b.name,
                       fmt::format("{}{}", is_transposed ? kAsItIs : "transposed", alpha != 1 ? fmt::format(", times {}", alpha) : ""));
  if (bias) {
    const OnnxConstant& c = graph.weights(node, 2);
    std::vector<float> values = c.floats;
    // One for all outputs, or for all samples: never one for each sample.
    const bool one = values.size() == 1,
               each = static_cast<int64_t>(values.size()) == out && (c.dimensions.empty() || c.dimensions.back() == out);
    if (!one && !each) node.refuse("a bias of [{}] for {} outputs", fmt::join(c.dimensions, ", "), out);
    if (one) values.assign(to_size(out), values[0]);
    for (float& value : values) value *= beta;
    graph.net.set_weight(y.layer, "bias", {out}, values, c.name, beta != 1 ? fmt::format("times {}", beta) : kAsItIs);
  }
  graph.set(node, 0, {y, x.axes});
}

void convert_matrix_product(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation x = graph.activation(node, 0);
  expect_features_last(node, x);
  node.no_more();
  const OnnxConstant& b = graph.weights(node, 1);
  if (b.dimensions.size() != 2) node.refuse("weights of [{}]", fmt::join(b.dimensions, ", "));
  const NetworkValue y = graph.net.add(node.layer_name(), Dense{.out_features = b.dimensions[1], .bias = false}, {x.value});
  graph.net.set_weight(y.layer, "weight", {b.dimensions[1], b.dimensions[0]}, transposed(b.floats, b.dimensions[0], b.dimensions[1]),
                       b.name, "transposed");
  graph.set(node, 0, {y, x.axes});
}

// A constant behind a matrix product is its bias.
void add_bias(OnnxNode& node, OnnxGraph& graph, int computed) {
  const OnnxActivation x = graph.activation(node, computed);
  const OnnxConstant& bias = graph.weights(node, 1 - computed);
  auto* dense = x.value.layer == kInputName ? nullptr : std::get_if<Dense>(&graph.net.operation_of(x.value.layer));
  if (dense == nullptr || dense->bias || graph.readers[node.input(computed)] != 1 || bias.dimensions.empty() ||
      static_cast<int64_t>(bias.floats.size()) != dense->out_features || bias.dimensions.back() != dense->out_features)
    node.refuse("a constant of [{}] is added; only the bias of a matrix product is read", fmt::join(bias.dimensions, ", "));
  dense->bias = true;
  graph.net.set_weight(x.value.layer, "bias", {dense->out_features}, bias.floats, bias.name, kAsItIs);
  graph.set(node, 0, x);
}

void convert_sum(OnnxNode& node, OnnxGraph& graph) {
  node.ignore("consumed_inputs");
  node.ignore("broadcast");
  node.ignore("axis");
  node.no_more();
  if (node.type() == "Add" && node.inputs() == 2)
    for (const int computed : {0, 1})
      if (graph.is_constant(node.input(1 - computed)) && !graph.is_constant(node.input(computed))) return add_bias(node, graph, computed);
  const OnnxActivation first = graph.activation(node, 0);
  std::vector<NetworkValue> terms;
  for (int i = 0; i < node.inputs(); ++i) {
    const OnnxActivation& term = graph.activation(node, i);
    if (term.axes != first.axes || term.value.shape != first.value.shape)
      node.refuse("terms of {} with axes {} and {} with axes {}; equal ones are needed", text_of(first.value.shape), first.axes,
                  text_of(term.value.shape), term.axes);
    terms.push_back(term.value);
  }
  if (terms.size() == 1) return graph.set(node, 0, first);
  graph.set(node, 0, {graph.net.add(node.layer_name(), Add{}, terms), first.axes});
}

void convert_concatenation(OnnxNode& node, OnnxGraph& graph) {
  const OnnxActivation first = graph.activation(node, 0);
  const auto rank = static_cast<int64_t>(first.axes.size());
  int64_t axis = node.whole("axis", 1);
  node.no_more();
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || item(first.axes, axis) != 'C')
    node.refuse("along axis {} of {}, only channels are joined", axis, first.axes);
  std::vector<NetworkValue> parts;
  for (int i = 0; i < node.inputs(); ++i) {
    const OnnxActivation& part = graph.activation(node, i);
    if (part.axes != first.axes) node.refuse("parts with axes {} and {}", first.axes, part.axes);
    parts.push_back(part.value);
  }
  if (parts.size() == 1) return graph.set(node, 0, first);
  graph.set(node, 0, {graph.net.add(node.layer_name(), Concat{}, parts), first.axes});
}

void convert_softmax(OnnxNode& node, OnnxGraph& graph) {
  OnnxActivation x = graph.activation(node, 0);
  const auto rank = static_cast<int64_t>(x.axes.size());
  int64_t axis = node.whole("axis", node.opset() < 13 ? 1 : -1);
  node.no_more();
  if (axis < 0) axis += rank;
  const bool channels = axis >= 0 && axis < rank && item(x.axes, axis) == 'C';
  // Before opset 13 everything from the axis on was one vector.
  if (!channels || (node.opset() < 13 && x.value.shape.plane() != 1))
    node.refuse("along axis {} of {}, only channels are scores", axis, x.axes);
  graph.net.note(fmt::format("{} is left out: the loss and predictions bring their own softmax", node.who()));
  x.is_scores = true;
  graph.set(node, 0, x);
}

}  // namespace

bool convert_onnx_layer(OnnxNode& node, OnnxGraph& graph) {
  const std::string& type = node.type();
  if (type == "Conv") return convert_convolution(node, graph), true;
  if (type == "MaxPool") return convert_pooling(node, graph, PoolKind::kMax), true;
  if (type == "AveragePool") return convert_pooling(node, graph, PoolKind::kAverage), true;
  if (type == "GlobalMaxPool") return convert_global_pooling(node, graph, PoolKind::kMax), true;
  if (type == "GlobalAveragePool") return convert_global_pooling(node, graph, PoolKind::kAverage), true;
  for (const auto& activation : kOnnxActivationTypes)
    if (type == activation.type) return convert_activation(node, graph, activation.kind), true;
  if (type == "BatchNormalization") return convert_batch_norm(node, graph), true;
  if (type == "LRN") return convert_local_response_norm(node, graph), true;
  if (type == "Dropout") return convert_dropout(node, graph), true;
  if (type == "Gemm") return convert_gemm(node, graph), true;
  if (type == "MatMul") return convert_matrix_product(node, graph), true;
  if (type == "Add" || type == "Sum") return convert_sum(node, graph), true;
  if (type == "Concat") return convert_concatenation(node, graph), true;
  if (type == "Softmax" || type == "LogSoftmax") return convert_softmax(node, graph), true;
  return false;
}

}  // namespace millrace
