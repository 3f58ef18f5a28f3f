// Small networks whose layers have all that hardware can do behind a sum.
//
//   const Graph graph(strided_model());
#pragma once

#include <vector>

#include "core/graph/model_builder.h"
#include "tests/fpga/conv_ce/generator/cut_plans.h"

namespace millrace {

inline Pool2d average(const Window& window, bool count_padding) {
  return {.kind = PoolKind::kAverage,
          .kernel_h = window.kernel,
          .kernel_w = window.kernel,
          .stride_h = window.stride,
          .stride_w = window.stride,
          .pad_h = window.pad,
          .pad_w = window.pad,
          .count_include_pad = count_padding};
}

// Strides of two behind a pooling whose windows overlap, and again behind that.
inline Model strided_model() {
  ModelBuilder net("strided", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv2", 4, {.kernel = 3, .stride = 2, .pad = 1});
  net.relu("relu2");
  net.conv("conv3", 3, {.kernel = 1, .stride = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Averages with and without a ReLU before them, over padding that counts and that does not, and over a whole map.
inline Model average_model() {
  ModelBuilder net("averages", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.layer("pool2", average({.kernel = 2, .stride = 2, .pad = 1}, true));
  net.conv("conv3", 3, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.layer("pool3", GlobalPool{});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Dropout behind a pooling, behind an average and a flattened map, and behind a dense layer.
inline Model dropout_model() {
  ModelBuilder net("dropouts", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.dropout("drop1", 0.2);
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.layer("pool2", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.flatten("flat");
  net.dropout("drop2", 0.5);
  net.dense("fc1", 12);
  net.relu("relu3");
  net.dropout("drop3", 0.7);
  net.dense("fc2", 4);
  return net.finish();
}

// Windows of five, and over a map of seven.
inline Model wide_windows_model() {
  ModelBuilder net("windows", {2, 15, 14});
  net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 5, .stride = 2, .pad = 2});
  net.conv("conv2", 3, {.kernel = 2});
  net.relu("relu2");
  net.layer("pool2", average({.kernel = 6, .stride = 6}, false));
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Windows too large to be held: of an average over padding with rows and columns between them, and of the rest of the map.
inline Model tiled_averages_model() {
  ModelBuilder net("tiled-averages", {2, 20, 13});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", average({.kernel = 9, .stride = 10, .pad = 4}, true));
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.layer("pool2", GlobalPool{});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Likewise of a maximum: high and narrow, with partial windows, then wide; of the single element that is left at last.
inline Model tiled_maxima_model() {
  ModelBuilder net("tiled-maxima", {1, 21, 33});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", Pool2d{.kernel_h = 17, .kernel_w = 2, .stride_h = 18, .stride_w = 2, .ceil_mode = true});
  net.conv("conv2", 6, {.kernel = 3, .pad = 1});
  net.layer("pool2", Pool2d{.kernel_h = 1, .kernel_w = 17, .stride_h = 1, .stride_w = 18});
  net.relu("relu2");
  net.conv("conv3", 3, {.kernel = 1});
  net.max_pool("pool3", {.kernel = 2, .stride = 2, .pad = 1});
  net.layer("pool4", GlobalPool{});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Windows too large to be held that overlap: of a maximum, the last ones of which hang over the map; oblong, of an average behind a norm;
// of a maximum that overlaps from top to bottom alone, behind a sum.
inline Model overlapping_windows_model() {
  ModelBuilder net("overlapping-windows", {2, 11, 14});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  const std::string most = net.layer("pool1", Pool2d{.kernel_h = 9, .kernel_w = 9, .stride_h = 1, .stride_w = 1, .pad_h = 4, .pad_w = 4});
  net.conv("conv2", 5, {.kernel = 3, .pad = 1});
  net.add("sum", {net.relu("relu2"), most});
  net.layer("pool2", Pool2d{.kernel_h = 17, .kernel_w = 2, .stride_h = 3, .stride_w = 2, .pad_h = 6, .ceil_mode = true});
  net.conv("conv3", 3, {.kernel = 1});
  net.layer("tanh3", Activation{.kind = ActivationKind::kTanh});
  net.layer(
      "pool3",
      Pool2d{
          .kind = PoolKind::kAverage, .kernel_h = 2, .kernel_w = 33, .stride_h = 2, .stride_w = 5, .pad_w = 30, .count_include_pad = true});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Windows of a single element, between which others lie: of a maximum, and of an average behind a tangent.
inline Model sparse_windows_model() {
  ModelBuilder net("sparse-windows", {2, 8, 9});
  net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", Pool2d{.kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 3});
  net.conv("conv2", 3, {.kernel = 1});
  net.layer("tanh2", Activation{.kind = ActivationKind::kTanh});
  net.layer("pool2", Pool2d{.kind = PoolKind::kAverage, .kernel_h = 1, .kernel_w = 1, .stride_h = 3, .stride_w = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Dense layers alone, of an input that is flattened first.
inline Model dense_model() {
  ModelBuilder net("dense", {2, 4, 4});
  net.flatten("flat");
  net.dense("fc1", 7);
  net.relu("relu1");
  net.dense("fc2", 5);
  net.relu("relu2");
  net.dense("fc3", 3);
  return net.finish();
}

// Kernels with holes, through a stride too.
inline Model dilated_model() {
  ModelBuilder net("dilated", {2, 9, 10});
  net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("conv2", Conv2d{.out_channels = 4, .kernel_h = 3, .kernel_w = 3, .pad_h = 2, .pad_w = 2, .dilation_h = 2, .dilation_w = 2});
  net.relu("relu2");
  net.layer("conv3",
            Conv2d{.out_channels = 3, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .dilation_h = 2, .dilation_w = 2});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

inline Model shortcut_model() {
  ModelBuilder net("shortcut", {2, 8, 8});
  const std::string first = net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  const std::string third = net.conv("conv3", 3, {.kernel = 3, .pad = 1});
  net.add("sum", {third, first});
  net.conv("conv4", 3, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Residual blocks: one whose shortcut is projected through a stride, one whose shortcut is the map itself; then an average over all.
inline Model residual_model() {
  ModelBuilder net("residual", {2, 8, 8});
  net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  const std::string input = net.relu("relu1");
  const std::string shortcut = net.conv("down2", 5, {.kernel = 1, .stride = 2});
  net.continue_from(input);
  net.conv("conv2a", 5, {.kernel = 3, .stride = 2, .pad = 1});
  net.relu("relu2a");
  net.conv("conv2b", 5, {.kernel = 3, .pad = 1});
  net.add("sum2", {net.last(), shortcut});
  const std::string second = net.relu("relu2");
  net.conv("conv3a", 5, {.kernel = 3, .pad = 1});
  net.relu("relu3a");
  net.conv("conv3b", 5, {.kernel = 3, .pad = 1});
  net.add("sum3", {net.last(), second});
  net.relu("relu3");
  net.layer("pool", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 4);
  return net.finish();
}

// Branches side by side, one behind a pooling, joined by their channels, which fill no lanes; a second such block behind it.
inline Model inception_model() {
  ModelBuilder net("inception", {2, 6, 6});
  net.conv("conv1", 4, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  const auto block = [&net](const std::string& name, int64_t a, int64_t b, int64_t c) {
    const std::string input = net.last();
    net.conv(name + "1", a, {.kernel = 1});
    const std::string first = net.relu(name + "1r");
    net.continue_from(input);
    net.conv(name + "2a", 2, {.kernel = 1});
    net.relu(name + "2ar");
    net.conv(name + "2b", b, {.kernel = 3, .pad = 1});
    const std::string second = net.relu(name + "2br");
    net.continue_from(input);
    net.max_pool(name + "3p", {.kernel = 3, .stride = 1, .pad = 1});
    net.conv(name + "3", c, {.kernel = 1});
    const std::string third = net.relu(name + "3r");
    net.concat(name, {first, second, third});
  };
  block("a", 3, 2, 2);
  net.max_pool("poola", {.kernel = 2, .stride = 2});
  block("b", 1, 4, 2);
  net.layer("pool", GlobalPool{.kind = PoolKind::kAverage});
  net.dropout("drop", 0.2);
  net.dense("fc", 4);
  return net.finish();
}

// Rectifiers that leave a part, before a maximum, an average and no pooling.
inline Model leaky_model() {
  const auto leaky = [](double slope) { return Activation{.kind = ActivationKind::kLeakyRelu, .slope = slope}; };
  ModelBuilder net("leaky", {2, 9, 10});
  net.conv("conv1", 3, {.kernel = 3, .pad = 1});
  net.layer("leaky1", leaky(0.01));
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  net.layer("leaky2", leaky(0.3));
  net.layer("pool2", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv3", 3, {.kernel = 1});
  net.layer("leaky3", leaky(0.1));
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Sigmoids and tangents before a maximum that overlaps, an average, behind a batch norm that runs along, and without pooling.
inline Model smooth_model() {
  ModelBuilder net("smooth", {2, 9, 10});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.layer("sigmoid1", Activation{.kind = ActivationKind::kSigmoid});
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  net.layer("tanh2", Activation{.kind = ActivationKind::kTanh});
  net.layer("pool2", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv_without_bias("conv3", 6, {.kernel = 1});
  net.layer("norm3", BatchNorm{.statistics = Statistics::kRunning});
  net.layer("tanh3", Activation{.kind = ActivationKind::kTanh});
  net.conv("conv4", 3, {.kernel = 1});
  net.layer("sigmoid4", Activation{.kind = ActivationKind::kSigmoid});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Windows that are not square: a maximum that overlaps to the side, an average with padding above alone, behind a tangent, over the whole
// map.
inline Model oblong_model() {
  ModelBuilder net("oblong", {2, 9, 12});
  net.conv("conv1", 5, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("pool1", Pool2d{.kind = PoolKind::kMax, .kernel_h = 2, .kernel_w = 3, .stride_h = 1, .stride_w = 2, .pad_h = 0, .pad_w = 1});
  net.conv("conv2", 3, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.layer("pool2",
            Pool2d{.kind = PoolKind::kAverage, .kernel_h = 3, .kernel_w = 1, .stride_h = 2, .stride_w = 1, .pad_h = 1, .pad_w = 0});
  net.conv("conv3", 4, {.kernel = 1});
  net.layer("tanh3", Activation{.kind = ActivationKind::kTanh});
  net.layer("pool3", Pool2d{.kind = PoolKind::kMax, .kernel_h = 1, .kernel_w = 3, .stride_h = 1, .stride_w = 3});
  net.conv("conv4", 3, {.kernel = 1});
  net.layer("pool4", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 4);
  return net.finish();
}

// Across channels, before a maximum that overlaps, an average, and no pooling; the last without a ReLU.
inline Model response_model() {
  const LocalResponseNorm norm{.size = 5, .alpha = 0.5, .beta = 0.75, .k = 2};
  ModelBuilder net("responses", {2, 9, 10});
  net.conv("conv1", 7, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.layer("norm1", norm);
  net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv2", 5, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.layer("norm2", norm);
  net.layer("pool2", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv3", 3, {.kernel = 1});
  net.layer("norm3", norm);
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Kernels that are not square, whose padding and dilation are not either, through a stride too.
inline Model oblong_kernels_model() {
  ModelBuilder net("oblong-kernels", {2, 9, 10});
  net.layer("conv1", Conv2d{.out_channels = 5, .kernel_h = 1, .kernel_w = 5, .pad_h = 0, .pad_w = 2});
  net.relu("relu1");
  net.layer("conv2", Conv2d{.out_channels = 4, .kernel_h = 5, .kernel_w = 1, .pad_h = 2, .pad_w = 0});
  net.relu("relu2");
  net.layer("conv3", Conv2d{.out_channels = 4, .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 0});
  net.relu("relu3");
  net.layer("conv4", Conv2d{.out_channels = 3, .kernel_h = 3, .kernel_w = 3, .pad_h = 2, .pad_w = 1, .dilation_h = 2, .dilation_w = 1});
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

// Channel groups that do not mix, of odd counts and through a stride.
inline Model grouped_model() {
  ModelBuilder net("grouped", {3, 9, 10});
  net.conv("conv1", 6, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.grouped_conv("conv2", 8, {.kernel = 3, .pad = 1}, 2);
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 3, .stride = 2, .pad = 1});
  net.grouped_conv("conv3", 12, {.kernel = 3, .stride = 2, .pad = 1}, 4);
  net.relu("relu3");
  net.flatten("flat");
  net.dense("fc", 4);
  return net.finish();
}

inline Model normalised_model(bool frozen) {
  ModelBuilder net("normalised", {2, 9, 10});
  net.conv_without_bias("conv1", 5, {.kernel = 3, .pad = 1});
  net.layer("norm1", BatchNorm{});
  net.relu("relu1");
  net.layer("pool1", average({.kernel = 3, .stride = 2, .pad = 1}, false));
  net.conv("conv2", 4, {.kernel = 3, .pad = 1});
  net.layer("norm2", BatchNorm{});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv("conv3", 3, {.kernel = 3, .stride = 2, .pad = 1});
  net.layer("norm3", BatchNorm{});
  net.flatten("flat");
  net.dense("fc", 4);
  Model model = net.finish();
  for (Layer& layer : model.layers)
    if (std::holds_alternative<BatchNorm>(layer.operation)) layer.frozen = frozen;
  return model;
}

// Batch norms that are trained with running statistics: behind a stride, before a sum, a maximum that overlaps, an average, nothing.
inline Model running_model() {
  const BatchNorm norm{.statistics = Statistics::kRunning};
  ModelBuilder net("running", {2, 8, 8});
  net.conv_without_bias("conv1", 3, {.kernel = 3, .pad = 1});
  net.layer("norm1", norm);
  net.relu("relu1");
  const std::string input = net.max_pool("pool1", {.kernel = 3, .stride = 2, .pad = 1});
  net.conv_without_bias("down", 5, {.kernel = 1, .stride = 2});
  const std::string shortcut = net.layer("downnorm", norm);
  net.continue_from(input);
  net.conv_without_bias("conv2", 5, {.kernel = 3, .stride = 2, .pad = 1});
  net.layer("norm2", norm);
  net.relu("relu2");
  net.conv("conv3", 5, {.kernel = 3, .pad = 1});
  net.layer("norm3", norm);
  net.add("sum", {net.last(), shortcut});
  net.relu("relu3");
  net.conv_without_bias("conv4", 3, {.kernel = 1});
  net.layer("norm4", norm);
  net.relu("relu4");
  net.layer("pool4", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", 4);
  return net.finish();
}

// Scales of both signs, some above one.
inline std::vector<double> normalising_weights(const Node& node, const ParameterSpec& parameter) {
  std::vector<double> values = some_weights(node, parameter);
  if (parameter.tensor == "running_var")
    for (double& value : values) value = 0.02 + value * value;
  if (parameter.tensor == "running_error" || parameter.tensor == "running_projection")
    for (double& value : values) value *= 0.01;
  return values;
}

}  // namespace millrace
