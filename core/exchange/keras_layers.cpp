#include "core/exchange/keras_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/index.h"

namespace millrace {
namespace {

using nlohmann::json;

constexpr const char* kAsItIs = "as it is";
constexpr int64_t kMostExtent = 1 << 24;

// An activation by its word, appended to a layer or alone. Softmax ends the network.
KerasValue activated(const KerasLayer& layer, const std::string& word, const std::string& name, KerasValue x, KerasContext& context) {
  if (word == "linear") return x;
  if (word == "softmax" || word == "log_softmax") {
    context.net.note(fmt::format("{}: its softmax is left out: the loss and predictions bring their own", layer.who()));
    x.is_scores = true;
    return x;
  }
  Activation activation;
  if (word == "relu")
    activation.kind = ActivationKind::kRelu;
  else if (word == "sigmoid")
    activation.kind = ActivationKind::kSigmoid;
  else if (word == "tanh")
    activation.kind = ActivationKind::kTanh;
  else
    layer.refuse("activation \"{}\" has no counterpart here", word);
  x.value = context.net.add(name, activation, {x.value});
  return x;
}

// "relu", or in newer files {"class_name": "relu", ..}.
std::string activation_of(const KerasLayer& layer, const char* setting = "activation") {
  const json* const found = layer.find(setting);
  if (found == nullptr || found->is_null()) return "linear";
  if (found->is_string()) return found->get<std::string>();
  layer.refuse("{} is an object of its own", setting);
}

void expect_not_flattened(const KerasLayer& layer, const KerasValue& x) {
  if (x.flattened) layer.refuse("it stands between a Flatten and a Dense, and would see the features in another order");
}

// Padding on both sides, from the word and the sizes.
int64_t padding(const KerasLayer& layer, int64_t extent, int64_t kernel, int64_t stride, int64_t dilation) {
  const std::string word = layer.word("padding", "valid");
  if (word == "valid") return 0;
  if (word != "same") layer.refuse("padding \"{}\"", word);
  const int64_t outputs = (extent + stride - 1) / stride;
  const int64_t all = std::max<int64_t>(0, (outputs - 1) * stride + dilation * (kernel - 1) + 1 - extent);
  if (all % 2 != 0) layer.refuse("padding \"same\" is {} before and {} behind here, equal ones are needed", all / 2, all - all / 2);
  return all / 2;
}

void expect_channels_last(const KerasLayer& layer) {
  if (layer.word("data_format", "channels_last") != "channels_last") layer.refuse("data_format channels_first");
}

KerasValue convolution(const KerasLayer& layer, const KerasValue& x, size_t axes, KerasContext& context) {
  expect_not_flattened(layer, x);
  expect_channels_last(layer);
  const std::vector<int64_t> kernel = layer.wholes("kernel_size", axes, 1), stride = layer.wholes("strides", axes, 1),
                             dilation = layer.wholes("dilation_rate", axes, 1);
  const bool wide = axes == 2, bias = layer.flag("use_bias", true);
  Conv2d conv{.out_channels = layer.whole("filters", 0),
              .kernel_h = kernel[0],
              .kernel_w = wide ? kernel[1] : 1,
              .stride_h = stride[0],
              .stride_w = wide ? stride[1] : 1,
              .dilation_h = dilation[0],
              .dilation_w = wide ? dilation[1] : 1,
              .groups = layer.whole("groups", 1),
              .bias = bias};
  conv.pad_h = padding(layer, x.value.shape.height, conv.kernel_h, conv.stride_h, conv.dilation_h);
  conv.pad_w = wide ? padding(layer, x.value.shape.width, conv.kernel_w, conv.stride_w, conv.dilation_w) : 0;
  const NetworkValue y = context.net.add(layer.name(), conv, {x.value});
  const std::vector<KerasTensor> tensors = keras_tensors(layer, bias ? 2 : 1, context);
  // [rows, columns, in, out] to [out, in, rows, columns]
  const int64_t in = x.value.shape.channels / conv.groups, out = conv.out_channels;
  std::vector<int64_t> wanted = {conv.kernel_h, in, out};
  if (wide) wanted.insert(wanted.begin() + 1, conv.kernel_w);
  const Hdf5Array& stored = tensors[0].array;
  if (stored.dimensions != wanted)
    fail(ErrorCode::kMismatch, "{}: {} is [{}], [{}] was expected; the weights belong to another model", layer.who(), tensors[0].source,
         fmt::join(stored.dimensions, ", "), fmt::join(wanted, ", "));
  const int64_t places = conv.kernel_h * conv.kernel_w;
  std::vector<float> weight(stored.values.size());
  for (int64_t p = 0; p < places; ++p)
    for (int64_t i = 0; i < in; ++i)
      for (int64_t o = 0; o < out; ++o) item(weight, (o * in + i) * places + p) = item(stored.values, (p * in + i) * out + o);
  context.net.set_weight(y.layer, "weight", {out, in, conv.kernel_h, conv.kernel_w}, weight, tensors[0].source,
                         "rows, columns, in, out to out, in, rows, columns");
  if (bias) context.net.set_weight(y.layer, "bias", tensors[1].array.dimensions, tensors[1].array.values, tensors[1].source, kAsItIs);
  return activated(layer, activation_of(layer), layer.name() + ".activation", {y, {}, false}, context);
}

KerasValue pooling(const KerasLayer& layer, const KerasValue& x, size_t axes, PoolKind kind, KerasContext& context) {
  expect_not_flattened(layer, x);
  expect_channels_last(layer);
  const std::vector<int64_t> kernel = layer.wholes("pool_size", axes, 2);
  const json* const given = layer.find("strides");
  const std::vector<int64_t> stride = given == nullptr || given->is_null() ? kernel : layer.wholes("strides", axes, 1);
  const bool wide = axes == 2;
  Pool2d pool{
      .kind = kind, .kernel_h = kernel[0], .kernel_w = wide ? kernel[1] : 1, .stride_h = stride[0], .stride_w = wide ? stride[1] : 1};
  pool.pad_h = padding(layer, x.value.shape.height, pool.kernel_h, pool.stride_h, 1);
  pool.pad_w = wide ? padding(layer, x.value.shape.width, pool.kernel_w, pool.stride_w, 1) : 0;
  return {context.net.add(layer.name(), pool, {x.value}), {}, false};
}

// Rows of a kernel behind a Flatten: Keras's order of rows, columns, channels to ours.
std::vector<float> in_our_order(const std::vector<float>& kernel, const Shape& shape, int64_t out) {
  std::vector<float> result(kernel.size());
  const int64_t plane = shape.plane();
  for (int64_t c = 0; c < shape.channels; ++c)
    for (int64_t p = 0; p < plane; ++p)
      std::copy_n(kernel.begin() + static_cast<ptrdiff_t>((p * shape.channels + c) * out), out,
                  result.begin() + static_cast<ptrdiff_t>((c * plane + p) * out));
  return result;
}

KerasValue dense(const KerasLayer& layer, const KerasLayer& settings, const KerasValue& x, KerasContext& context) {
  const bool bias = settings.flag("use_bias", true);
  const int64_t out = settings.whole("units", 0), in = x.value.shape.channels;
  if (x.value.shape.width != 1) layer.refuse("it works on every pixel of {}; a Flatten before it is read", text_of(x.value.shape));
  const NetworkValue y = context.net.add(layer.name(), Dense{.out_features = out, .bias = bias}, {x.value});
  const std::vector<KerasTensor> tensors = keras_tensors(layer, bias ? 2 : 1, context);
  if (tensors[0].array.dimensions != std::vector<int64_t>{in, out})
    fail(ErrorCode::kMismatch, "{}: {} is [{}], [{}, {}] was expected; the weights belong to another model", layer.who(), tensors[0].source,
         fmt::join(tensors[0].array.dimensions, ", "), in, out);
  const std::vector<float> kernel = x.flattened ? in_our_order(tensors[0].array.values, *x.flattened, out) : tensors[0].array.values;
  context.net.set_weight(y.layer, "weight", {out, in}, transposed(kernel, in, out), tensors[0].source,
                         x.flattened ? "rows from rows, columns, channels to channels, rows, columns; transposed" : "transposed");
  if (bias) context.net.set_weight(y.layer, "bias", tensors[1].array.dimensions, tensors[1].array.values, tensors[1].source, kAsItIs);
  return activated(layer, activation_of(settings), layer.name() + ".activation", {y, {}, false}, context);
}

KerasValue batch_norm(const KerasLayer& layer, const KerasValue& x, KerasContext& context) {
  expect_not_flattened(layer, x);
  const json* axis = layer.find("axis");
  if (axis != nullptr && axis->is_array() && axis->size() == 1) axis = &axis->front();
  // Axes of the file: samples, (rows, columns or steps,) channels.
  const int64_t last = x.value.shape.width > 1 ? 3 : x.value.shape.height > 1 ? 2 : -1;
  const bool of_channels =
      axis == nullptr || (axis->is_number_integer() && (axis->get<int64_t>() == -1 || axis->get<int64_t>() == last ||
                                                        (last == -1 && axis->get<int64_t>() >= 1 && axis->get<int64_t>() <= 3)));
  if (!of_channels) layer.refuse("along axis {}, only channels are normalised", axis->dump());
  const bool scale = layer.flag("scale", true), centre = layer.flag("center", true);
  const BatchNorm norm{.epsilon = layer.number("epsilon", 1e-3), .momentum = 1 - layer.number("momentum", 0.99)};
  const NetworkValue y = context.net.add(layer.name(), norm, {x.value});
  const std::vector<KerasTensor> tensors = keras_tensors(layer, size_t{2} + (scale ? 1U : 0U) + (centre ? 1U : 0U), context);
  const auto channels = to_size(x.value.shape.channels);
  size_t next = 0;
  const auto set = [&](const char* tensor, bool there, float otherwise) {
    if (there) {
      const KerasTensor& stored = tensors[next++];
      context.net.set_weight(y.layer, tensor, stored.array.dimensions, stored.array.values, stored.source, kAsItIs);
    } else {
      context.net.set_weight(y.layer, tensor, {static_cast<int64_t>(channels)}, std::vector<float>(channels, otherwise), "none",
                             fmt::format("{} throughout", otherwise));
    }
  };
  set("weight", scale, 1);
  set("bias", centre, 0);
  set("running_mean", true, 0);
  set("running_var", true, 1);
  return {y, {}, false};
}

KerasValue embedding(const KerasLayer& layer, const KerasValue& x, KerasContext& context) {
  if (layer.flag("mask_zero", false)) layer.refuse("mask_zero, which ends samples at a token");
  const Embedding table{.vocabulary = layer.whole("input_dim", 0), .dimension = layer.whole("output_dim", 0)};
  const NetworkValue y = context.net.add(layer.name(), table, {x.value});
  const std::vector<KerasTensor> tensors = keras_tensors(layer, 1, context);
  context.net.set_weight(y.layer, "weight", tensors[0].array.dimensions, tensors[0].array.values, tensors[0].source, kAsItIs);
  return {y, {}, false};
}

KerasValue rectifier(const KerasLayer& layer, KerasValue x, KerasContext& context) {
  for (const char* const setting : {"max_value", "threshold"})
    if (const json* const found = layer.find(setting); found != nullptr && !found->is_null() && *found != 0)
      layer.refuse("{} {}", setting, found->dump());
  const bool leaky = layer.class_name() == "LeakyReLU";
  double slope = leaky ? layer.number("alpha", layer.number("negative_slope", 0.3)) : layer.number("negative_slope", 0);
  Activation activation{.kind = slope == 0 ? ActivationKind::kRelu : ActivationKind::kLeakyRelu};
  if (slope != 0) activation.slope = slope;
  x.value = context.net.add(layer.name(), activation, {x.value});
  return x;
}

KerasValue joined(const KerasLayer& layer, const std::vector<KerasValue>& inputs, KerasContext& context) {
  std::vector<NetworkValue> values;
  for (const KerasValue& input : inputs) {
    expect_not_flattened(layer, input);
    values.push_back(input.value);
  }
  if (layer.class_name() == "Add") return {context.net.add(layer.name(), Add{}, values), {}, false};
  const Shape& shape = inputs.front().value.shape;
  const int64_t axis = layer.whole("axis", -1), last = shape.width > 1 ? 3 : shape.height > 1 ? 2 : 1;
  if (axis != -1 && axis != last && !(shape.plane() == 1 && axis >= 1 && axis <= 3))
    layer.refuse("along axis {}, only channels are joined", axis);
  return {context.net.add(layer.name(), Concat{}, values), {}, false};
}

KerasValue flattened(const KerasLayer& layer, const KerasValue& x, KerasContext& context) {
  if (x.flattened || x.value.shape.plane() == 1) return x;
  expect_channels_last(layer);
  return {context.net.add(layer.name(), Flatten{}, {x.value}), x.value.shape.channels > 1 ? std::optional(x.value.shape) : std::nullopt,
          false};
}

}  // namespace

KerasLayer::KerasLayer(const json& document, int64_t number) : number_(number) {
  const auto damaged = [&](const char* what) { fail(ErrorCode::kMalformed, "layer {} of the configuration has no {}", number, what); };
  if (!document.is_object() || !document.contains("class_name") || !document["class_name"].is_string()) damaged("class_name");
  class_name_ = document["class_name"].get<std::string>();
  if (!document.contains("config") || !document["config"].is_object()) damaged("config");
  config_ = &document["config"];
  if (const json* const name = find("name"); name != nullptr && name->is_string()) name_ = name->get<std::string>();
  if (name_.empty() && document.contains("name") && document["name"].is_string()) name_ = document["name"].get<std::string>();
  if (name_.empty()) damaged("name");
}

const json* KerasLayer::find(const char* setting) const {
  const auto found = config_->find(setting);
  return found == config_->end() ? nullptr : &*found;
}

bool KerasLayer::flag(const char* setting, bool otherwise) const {
  const json* const found = find(setting);
  if (found == nullptr || found->is_null()) return otherwise;
  if (!found->is_boolean()) fail(ErrorCode::kMalformed, "{}: {} is {}, true or false was expected", who(), setting, found->dump());
  return found->get<bool>();
}

int64_t KerasLayer::whole(const char* setting, int64_t otherwise) const {
  const json* const found = find(setting);
  if (found == nullptr || found->is_null()) return otherwise;
  if (!found->is_number_integer() || std::abs(found->get<double>()) > static_cast<double>(kMostExtent))
    fail(ErrorCode::kMalformed, "{}: {} is {}, a whole number was expected", who(), setting, found->dump());
  return found->get<int64_t>();
}

double KerasLayer::number(const char* setting, double otherwise) const {
  const json* found = find(setting);
  if (found == nullptr || found->is_null()) return otherwise;
  if (found->is_object() && found->contains("value")) found = &(*found)["value"];  // numpy numbers of older files
  if (!found->is_number() || !std::isfinite(found->get<double>()))
    fail(ErrorCode::kMalformed, "{}: {} is {}, a number was expected", who(), setting, found->dump());
  return found->get<double>();
}

std::string KerasLayer::word(const char* setting, const std::string& otherwise) const {
  const json* const found = find(setting);
  if (found == nullptr || found->is_null()) return otherwise;
  if (!found->is_string()) fail(ErrorCode::kMalformed, "{}: {} is {}, a word was expected", who(), setting, found->dump());
  return found->get<std::string>();
}

std::vector<int64_t> KerasLayer::wholes(const char* setting, size_t axes, int64_t otherwise) const {
  const json* const found = find(setting);
  if (found == nullptr || found->is_null()) return std::vector<int64_t>(axes, otherwise);
  std::vector<int64_t> values;
  if (found->is_number_integer()) values.assign(axes, found->get<int64_t>());
  if (found->is_array())
    for (const json& one : *found) values.push_back(one.is_number_integer() ? one.get<int64_t>() : -1);
  if (values.size() != axes || std::ranges::any_of(values, [](int64_t v) { return v < 1 || v > kMostExtent; }))
    fail(ErrorCode::kMalformed, "{}: {} is {}, {} whole numbers were expected", who(), setting, found->dump(), axes);
  return values;
}

KerasLayer KerasLayer::inner() const {
  const json* const found = find("layer");
  if (found == nullptr) fail(ErrorCode::kMalformed, "{}: nothing is wrapped in it", who());
  return KerasLayer(*found, number_);
}

std::vector<KerasTensor> keras_tensors(const KerasLayer& layer, size_t count, const KerasContext& context) {
  std::vector<KerasTensor> tensors = context.weights.of_layer(layer.place());
  if (tensors.size() != count)
    fail(ErrorCode::kMismatch, "{}: {} tensors among the weights, {} were expected; they belong to another model", layer.who(),
         tensors.size(), count);
  return tensors;
}

KerasValue convert_keras_layer(const KerasLayer& layer, const std::vector<KerasValue>& inputs, KerasContext& context) {
  const std::string& type = layer.class_name();
  for (const KerasValue& input : inputs)
    if (input.is_scores) layer.refuse("it follows a softmax, which is read at the end of a network only");
  const bool joins = type == "Add" || type == "Concatenate";
  if (inputs.empty() || (inputs.size() > 1 && !joins)) layer.refuse("{} inputs", inputs.size());
  if (joins) return joined(layer, inputs, context);
  const KerasValue& x = inputs.front();
  if (is_keras_recurrent(type)) return convert_keras_recurrent(layer, layer, false, x, context);
  if (type == "Bidirectional") return convert_keras_recurrent(layer, layer.inner(), true, x, context);
  if (type == "TimeDistributed") {
    const KerasLayer inner = layer.inner();
    if (inner.class_name() != "Dense") layer.refuse("a {} at every step, only Dense is read", inner.class_name());
    return dense(layer, inner, x, context);
  }
  if (type == "Dense") return dense(layer, layer, x, context);
  if (type == "Conv1D" || type == "Conv2D") return convolution(layer, x, type == "Conv2D" ? 2 : 1, context);
  if (type == "MaxPooling1D" || type == "MaxPooling2D") return pooling(layer, x, type == "MaxPooling2D" ? 2 : 1, PoolKind::kMax, context);
  if (type == "AveragePooling1D" || type == "AveragePooling2D")
    return pooling(layer, x, type == "AveragePooling2D" ? 2 : 1, PoolKind::kAverage, context);
  if (type.starts_with("GlobalMaxPooling") || type.starts_with("GlobalAveragePooling")) {
    expect_not_flattened(layer, x);
    expect_channels_last(layer);
    const PoolKind kind = type.starts_with("GlobalMax") ? PoolKind::kMax : PoolKind::kAverage;
    return {context.net.add(layer.name(), GlobalPool{.kind = kind}, {x.value}), {}, false};
  }
  if (type == "BatchNormalization") return batch_norm(layer, x, context);
  if (type == "Embedding") return embedding(layer, x, context);
  if (type == "Flatten") return flattened(layer, x, context);
  if (type == "Dropout") {
    KerasValue y = x;
    y.value = context.net.add(layer.name(), Dropout{.probability = layer.number("rate", 0.5)}, {x.value});
    return y;
  }
  if (type == "Activation") return activated(layer, activation_of(layer), layer.name(), x, context);
  if (type == "Softmax") return activated(layer, "softmax", layer.name(), x, context);
  if (type == "ReLU" || type == "LeakyReLU") return rectifier(layer, x, context);
  layer.refuse("layers of this class have no counterpart here");
}

}  // namespace millrace
