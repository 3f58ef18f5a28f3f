#include "core/exchange/onnx_export.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/build_info.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/exchange/network_writer.h"
#include "core/train/segment_state.h"

#ifdef MILLRACE_HAS_ONNX
#include "core/exchange/onnx_graph.h"
#endif

namespace millrace {

#ifdef MILLRACE_HAS_ONNX
namespace {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

constexpr int64_t kOpset = 13;
constexpr int64_t kIrVersion = 7;

// How a value lies in the file: maps [N, C, H, W], rows of features [N, C], steps [T, N, C].
enum class Form { kMap, kFlat, kSteps };

struct Value {
  std::string name;
  Form form = Form::kMap;
};

class Writer {
 public:
  Writer(const Graph& graph, const TensorMap& weights) : graph_(graph), weights_(weights) {
    model_.set_ir_version(kIrVersion);
    model_.set_producer_name("millrace");
    model_.set_producer_version(std::string(kVersion));
    auto* const opset = model_.add_opset_import();
    opset->set_domain("");
    opset->set_version(kOpset);
    to_ = model_.mutable_graph();
    to_->set_name(graph.model().name);
  }

  std::string write() {
    values_[kNetworkInput] = write_input();
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      if (index == graph_.loss()) continue;
      node_ = &graph_.node(index);
      values_[index] = std::visit([this](const auto& operation) { return put(operation); }, node_->layer.operation);
    }
    write_output();
    return model_.SerializeAsString();
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    fail(ErrorCode::kUsage, "layer \"{}\" ({}): {}", node_->layer.name, name_of(node_->layer.operation), why);
  }
  const std::string& layer_name() const { return node_->layer.name; }
  const Value& input(size_t i = 0) const { return values_.at(node_->inputs[i]); }
  const Shape& input_shape(size_t i = 0) const { return node_->input_shapes[i]; }

  static void extent(onnx::TensorShapeProto* shape, int64_t value) { shape->add_dim()->set_dim_value(value); }
  static void samples(onnx::TensorShapeProto* shape) { shape->add_dim()->set_dim_param("N"); }

  // Vectors where a dense layer reads the input; steps where a layer over steps does.
  Value write_input() {
    const Model& model = graph_.model();
    const Shape& shape = model.input;
    bool dense = false, steps = false;
    for (const Node& node : graph_.nodes())
      if (std::ranges::find(node.inputs, kNetworkInput) != node.inputs.end()) {
        dense = dense || std::holds_alternative<Dense>(node.layer.operation);
        steps = steps || std::holds_alternative<Recurrent>(node.layer.operation) ||
                std::holds_alternative<LastStep>(node.layer.operation) || std::holds_alternative<Embedding>(node.layer.operation);
      }
    auto* const input = to_->add_input();
    input->set_name("input");
    auto* const tensor = input->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(model.input_kind == InputKind::kTokens ? TensorProto::INT64 : TensorProto::FLOAT);
    auto* const extents = tensor->mutable_shape();
    samples(extents);
    if (model.input_kind == InputKind::kTokens) {
      extent(extents, shape.height);
      return {transpose("input", "input", {1, 0}), Form::kSteps};
    }
    if (shape.width == 1 && (steps || (dense && shape.height > 1))) {
      extent(extents, shape.height);
      extent(extents, shape.channels);
      return {transpose("input", "input", {1, 0, 2}), Form::kSteps};
    }
    extent(extents, shape.channels);
    if (dense && shape.plane() == 1) return {"input", Form::kFlat};
    extent(extents, shape.height);
    extent(extents, shape.width);
    return {"input", Form::kMap};
  }

  void write_output() {
    const int64_t scores = graph_.scores();
    const Value& value = values_.at(scores);
    const Shape& shape = graph_.shape_of(scores);
    NodeProto* const last =
        node("Identity", "scores", {value.form == Form::kSteps ? transpose("scores", value.name, {1, 0, 2}) : value.name});
    last->set_output(0, "scores");
    auto* const output = to_->add_output();
    output->set_name("scores");
    output->mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
    auto* const extents = output->mutable_type()->mutable_tensor_type()->mutable_shape();
    samples(extents);
    if (value.form == Form::kSteps) extent(extents, shape.height);
    extent(extents, shape.channels);
    if (value.form != Form::kMap) return;
    extent(extents, shape.height);
    extent(extents, shape.width);
  }

  // A node that makes one value called as itself.
  NodeProto* node(const char* type, const std::string& name, const std::vector<std::string>& inputs) {
    NodeProto* const node = to_->add_node();
    node->set_op_type(type);
    node->set_name(name);
    for (const std::string& input : inputs) node->add_input(input);
    node->add_output(name + ":0");
    return node;
  }
  static AttributeProto* attribute(NodeProto* node, const char* name, AttributeProto::AttributeType type) {
    AttributeProto* const attribute = node->add_attribute();
    attribute->set_name(name);
    attribute->set_type(type);
    return attribute;
  }
  static void whole(NodeProto* node, const char* name, int64_t value) { attribute(node, name, AttributeProto::INT)->set_i(value); }
  static void number(NodeProto* node, const char* name, double value) {
    attribute(node, name, AttributeProto::FLOAT)->set_f(static_cast<float>(value));
  }
  static void word(NodeProto* node, const char* name, const std::string& value) {
    attribute(node, name, AttributeProto::STRING)->set_s(value);
  }
  static void wholes(NodeProto* node, const char* name, const std::vector<int64_t>& values) {
    AttributeProto* const list = attribute(node, name, AttributeProto::INTS);
    for (const int64_t value : values) list->add_ints(value);
  }

  std::string transpose(const std::string& layer, const std::string& value, const std::vector<int64_t>& order) {
    NodeProto* const made = node("Transpose", fmt::format("{}:transpose{}", layer, transposes_++), {value});
    wholes(made, "perm", order);
    return made->output(0);
  }
  std::string constant(const std::string& name, const std::vector<int64_t>& values) {
    TensorProto* const tensor = to_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::INT64);
    tensor->add_dims(static_cast<int64_t>(values.size()));
    tensor->set_raw_data(values.data(), values.size() * sizeof(int64_t));
    return name;
  }
  std::string constant(const std::string& name, const std::vector<int64_t>& dimensions, const std::vector<float>& values) {
    TensorProto* const tensor = to_->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(TensorProto::FLOAT);
    for (const int64_t extent : dimensions) tensor->add_dims(extent);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    return name;
  }
  std::vector<float> weight(const std::string& tensor) const {
    const auto spec = std::ranges::find(node_->parameters, tensor, &ParameterSpec::tensor);
    const std::vector<double> values = checked_values(weights_, layer_name() + "." + tensor, *spec);
    return {values.begin(), values.end()};
  }
  // The layer's tensor as it is.
  std::string parameter(const std::string& tensor) {
    const auto spec = std::ranges::find(node_->parameters, tensor, &ParameterSpec::tensor);
    return constant(layer_name() + "." + tensor, spec->dimensions, weight(tensor));
  }

  std::string as_map() const {
    if (input().form != Form::kMap) refuse("ONNX has no such operator over steps or rows of features");
    return input().name;
  }
  Value same_form(NodeProto* made) const { return {made->output(0), input().form}; }

  static void window(NodeProto* made, int64_t kernel_h, int64_t kernel_w, int64_t stride_h, int64_t stride_w, int64_t pad_h,
                     int64_t pad_w) {
    wholes(made, "kernel_shape", {kernel_h, kernel_w});
    wholes(made, "strides", {stride_h, stride_w});
    wholes(made, "pads", {pad_h, pad_w, pad_h, pad_w});
  }

  Value put(const Conv2d& conv) {
    std::vector<std::string> inputs = {as_map(), parameter("weight")};
    if (conv.bias) inputs.push_back(parameter("bias"));
    NodeProto* const made = node("Conv", layer_name(), inputs);
    window(made, conv.kernel_h, conv.kernel_w, conv.stride_h, conv.stride_w, conv.pad_h, conv.pad_w);
    wholes(made, "dilations", {conv.dilation_h, conv.dilation_w});
    whole(made, "group", conv.groups);
    return same_form(made);
  }
  Value put(const Dense& dense) {
    if (input().form == Form::kSteps) {
      const int64_t in = input_shape().channels, out = dense.out_features;
      NodeProto* const product = node("MatMul", layer_name(),
                                      {input().name, constant(layer_name() + ".weight", {in, out}, transposed(weight("weight"), out, in))});
      if (!dense.bias) return same_form(product);
      return same_form(node("Add", layer_name() + ":bias", {product->output(0), parameter("bias")}));
    }
    std::string from = input().name;
    if (input().form == Form::kMap) {
      NodeProto* const flat = node("Flatten", layer_name() + ":flatten", {from});
      whole(flat, "axis", 1);
      from = flat->output(0);
    }
    std::vector<std::string> inputs = {from, parameter("weight")};
    if (dense.bias) inputs.push_back(parameter("bias"));
    NodeProto* const made = node("Gemm", layer_name(), inputs);
    whole(made, "transB", 1);
    return {made->output(0), Form::kFlat};
  }
  Value put(const Pool2d& pool) {
    const bool average = pool.kind == PoolKind::kAverage;
    NodeProto* const made = node(average ? "AveragePool" : "MaxPool", layer_name(), {as_map()});
    window(made, pool.kernel_h, pool.kernel_w, pool.stride_h, pool.stride_w, pool.pad_h, pool.pad_w);
    whole(made, "ceil_mode", pool.ceil_mode ? 1 : 0);
    if (average) whole(made, "count_include_pad", pool.count_include_pad ? 1 : 0);
    if (average && pool.ceil_mode && pool.count_include_pad) refuse("ceil_mode beside count_include_pad means something else in ONNX");
    return same_form(made);
  }
  Value put(const GlobalPool& pool) {
    return same_form(node(pool.kind == PoolKind::kAverage ? "GlobalAveragePool" : "GlobalMaxPool", layer_name(), {as_map()}));
  }
  Value put(const Activation& activation) {
    const auto* const type = std::ranges::find(kOnnxActivationTypes, activation.kind, &OnnxActivationType::kind);
    if (type == std::end(kOnnxActivationTypes)) refuse("ONNX has no such operator");
    NodeProto* const made = node(type->type, layer_name(), {input().name});
    if (activation.kind == ActivationKind::kLeakyRelu) number(made, "alpha", activation.slope);
    return same_form(made);
  }
  Value put(const BatchNorm& norm) {
    // Channels have to be the second axis.
    const bool steps = input().form == Form::kSteps;
    const std::string from = steps ? transpose(layer_name(), input().name, {1, 2, 0}) : input().name;
    NodeProto* const made = node("BatchNormalization", layer_name(),
                                 {from, parameter("weight"), parameter("bias"), parameter("running_mean"), parameter("running_var")});
    number(made, "epsilon", norm.epsilon);
    number(made, "momentum", 1 - norm.momentum);
    return steps ? Value{transpose(layer_name(), made->output(0), {2, 0, 1}), Form::kSteps} : same_form(made);
  }
  Value put(const LocalResponseNorm& norm) {
    if (norm.size % 2 == 0) refuse("an even size reaches to another side in ONNX");
    NodeProto* const made = node("LRN", layer_name(), {as_map()});
    whole(made, "size", norm.size);
    number(made, "alpha", norm.alpha);
    number(made, "beta", norm.beta);
    number(made, "bias", norm.k);
    return same_form(made);
  }
  Value put(const Dropout& dropout) {
    return same_form(
        node("Dropout", layer_name(), {input().name, constant(layer_name() + ".ratio", {}, {static_cast<float>(dropout.probability)})}));
  }
  std::vector<std::string> all_inputs() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < node_->inputs.size(); ++i) {
      if (input(i).form != input().form) refuse("its inputs lie differently in ONNX");
      names.push_back(input(i).name);
    }
    return names;
  }
  Value put(const Add&) { return same_form(node("Sum", layer_name(), all_inputs())); }
  Value put(const Concat&) {
    NodeProto* const made = node("Concat", layer_name(), all_inputs());
    whole(made, "axis", input().form == Form::kSteps ? 2 : 1);
    return same_form(made);
  }
  Value put(const Flatten&) {
    if (input().form == Form::kSteps) refuse("ONNX has no such operator over steps");
    NodeProto* const made = node("Flatten", layer_name(), {input().name});
    whole(made, "axis", 1);
    return {made->output(0), Form::kFlat};
  }
  Value put(const Recurrent& cell) {
    if (cell.stateful) refuse("its state is kept between samples, which ONNX's cells do not do");
    if (cell.projection > 0) refuse("a projection, which ONNX's cells do not have");
    if (input().form != Form::kSteps) refuse("its input is no row of steps");
    struct Facts {
      const char* type;
      std::vector<int> order;  // the file's gates, block by block, out of ours
    };
    const Facts facts = cell.cell == CellKind::kLstm  ? Facts{"LSTM", {0, 3, 1, 2}}
                        : cell.cell == CellKind::kGru ? Facts{"GRU", {1, 0, 2}}
                                                      : Facts{"RNN", {0}};
    const int64_t directions = cell.bidirectional ? 2 : 1, rows = static_cast<int64_t>(facts.order.size()) * cell.hidden;
    std::vector<float> w, r, b;
    for (int64_t d = 0; d < directions; ++d) {
      const std::string suffix = d == 0 ? "" : "_reverse";
      const auto append = [&](std::vector<float>& to, const std::string& tensor, int64_t columns) {
        const std::vector<float> values = reorder_blocks(weight(tensor + suffix), columns, facts.order);
        to.insert(to.end(), values.begin(), values.end());
      };
      append(w, "weight_ih", input_shape().channels);
      append(r, "weight_hh", cell.hidden);
      append(b, "bias_ih", 1);
      append(b, "bias_hh", 1);
    }
    const std::string& name = layer_name();
    NodeProto* const made =
        node(facts.type, name,
             {input().name, constant(name + ".W", {directions, rows, input_shape().channels}, w),
              constant(name + ".R", {directions, rows, cell.hidden}, r), constant(name + ".B", {directions, 2 * rows}, b)});
    whole(made, "hidden_size", cell.hidden);
    if (cell.bidirectional) word(made, "direction", "bidirectional");
    if (cell.cell == CellKind::kGru) whole(made, "linear_before_reset", cell.reset_after ? 1 : 0);
    if (cell.cell == CellKind::kVanillaRelu || cell.cell == CellKind::kVanillaTanh) {
      AttributeProto* const words = attribute(made, "activations", AttributeProto::STRINGS);
      for (int64_t d = 0; d < directions; ++d) words->add_strings(cell.cell == CellKind::kVanillaRelu ? "Relu" : "Tanh");
    }
    if (cell.gate_activation == GateActivation::kHardSigmoid) {
      AttributeProto* const words = attribute(made, "activations", AttributeProto::STRINGS);
      AttributeProto *const slopes = attribute(made, "activation_alpha", AttributeProto::FLOATS), *const middles =
                                                                                                      attribute(made, "activation_beta",
                                                                                                                AttributeProto::FLOATS);
      for (int64_t d = 0; d < directions; ++d) {
        words->add_strings("HardSigmoid");
        for (int64_t i = 0; i < (cell.cell == CellKind::kLstm ? 2 : 1); ++i) words->add_strings("Tanh");
        slopes->add_floats(static_cast<float>(cell.gate_slope));
        middles->add_floats(0.5F);
      }
    }
    if (!cell.bidirectional)
      return {node("Squeeze", name + ":squeeze", {made->output(0), constant(name + ".axes", {1})})->output(0), Form::kSteps};
    const std::string together = transpose(name, made->output(0), {0, 2, 1, 3});
    return {node("Reshape", name + ":join", {together, constant(name + ".shape", {0, 0, -1})})->output(0), Form::kSteps};
  }
  Value put(const Embedding&) { return {node("Gather", layer_name(), {parameter("weight"), input().name})->output(0), Form::kSteps}; }
  Value put(const ToSequence&) {
    const std::string& name = layer_name();
    const std::string rows = transpose(name, as_map(), {2, 0, 1, 3});
    return {node("Reshape", name, {rows, constant(name + ".shape", {0, 0, -1})})->output(0), Form::kSteps};
  }
  Value put(const LastStep&) {
    if (input().form != Form::kSteps) refuse("its input is no row of steps");
    TensorProto* const last = to_->add_initializer();
    last->set_name(layer_name() + ".last");
    last->set_data_type(TensorProto::INT64);
    const int64_t index = -1;
    last->set_raw_data(&index, sizeof(index));
    NodeProto* const made = node("Gather", layer_name(), {input().name, last->name()});
    whole(made, "axis", 0);
    return {made->output(0), Form::kFlat};
  }
  Value put(const SoftmaxCrossEntropy&) { refuse("a loss that is not the last layer"); }
  Value put(const CtcLoss&) { refuse("a loss that is not the last layer"); }
  template <typename Other>
  Value put(const Other&) {
    refuse("ONNX has no such operator");
  }

  const Graph& graph_;
  const TensorMap& weights_;
  onnx::ModelProto model_;
  GraphProto* to_ = nullptr;
  const Node* node_ = nullptr;
  std::map<int64_t, Value> values_;
  int transposes_ = 0;
};

}  // namespace

void export_onnx(const Graph& graph, const TensorMap& weights, const std::filesystem::path& path) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : weights) bytes += 4 * tensor.elements();
  constexpr int64_t kMostBytes = INT32_MAX - (1 << 20);
  if (bytes > kMostBytes) fail(ErrorCode::kUsage, "{} bytes of weights, an ONNX file holds at most {}", bytes, kMostBytes);
  write_atomically(path, Writer(graph, weights).write());
}
#else
void export_onnx(const Graph&, const TensorMap&, const std::filesystem::path& path) {
  fail(ErrorCode::kUnavailable, "{}: this build writes no ONNX; install libonnx-dev and configure again", path.string());
}
#endif

}  // namespace millrace
