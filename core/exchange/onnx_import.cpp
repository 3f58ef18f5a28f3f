#include "core/exchange/onnx_import.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/base/files.h"

#ifdef MILLRACE_HAS_ONNX
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>

#include "core/base/index.h"
#include "core/exchange/onnx_graph.h"
#endif

namespace millrace {

#ifdef MILLRACE_HAS_ONNX
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::ValueInfoProto;

constexpr int kMostNodes = 100'000;
// What a network of open length is said to have; the data's own length replaces it.
constexpr int64_t kAssumedSteps = 100;

// The axes of the network's input: from how many it has, which of them are open, and who reads them.
std::string axes_of_input(const GraphProto& graph, const ValueInfoProto& input, bool whole) {
  const auto& shape = input.type().tensor_type().shape();
  const int rank = shape.dim_size();
  if (whole) return rank == 2 ? "NH" : "";
  if (rank != 3) return rank == 1 ? "N" : rank == 2 ? "NC" : rank == 4 ? "NCHW" : "";
  // Steps of features, where a recurrent layer or a matrix product reads it, perhaps with the axes exchanged before.
  std::string name = input.name();
  bool exchanged = false, features_last = false;
  for (const NodeProto& node : graph.node()) {
    if (node.input_size() == 0 || node.input(0) != name) continue;
    const std::string& type = node.op_type();
    if (type == "Shape") continue;  // for the states to begin with
    const auto attribute = [&](const char* wanted) {
      return std::ranges::find_if(node.attribute(), [wanted](const auto& one) { return one.name() == wanted; });
    };
    if (type == "LSTM" || type == "GRU" || type == "RNN") {
      const auto layout = attribute("layout");
      const bool samples_first = layout != node.attribute().end() && layout->i() != 0;
      return samples_first != exchanged ? "NHC" : "HNC";
    }
    if (type == "Transpose") {
      const auto perm = attribute("perm");
      if (perm == node.attribute().end() || perm->ints_size() != 3) break;
      if (perm->ints(0) == 1 && perm->ints(1) == 0) exchanged = !exchanged;
      if (perm->ints(0) == 0 && perm->ints(1) == 2) return "NHC";  // samples, steps, features for a convolution over steps
    } else if (type == "MatMul") {
      features_last = true;
    } else if (type != "Identity" && type != "Add" && type != "Relu" && type != "Tanh" && type != "Sigmoid" && type != "Dropout") {
      break;
    }
    name = node.output_size() > 0 ? node.output(0) : "";
  }
  if (features_last || exchanged) return shape.dim(0).has_dim_value() && !shape.dim(1).has_dim_value() ? "HNC" : "NHC";
  return "NCH";
}

void read_input(const ValueInfoProto& input, const GraphProto& proto, OnnxGraph& graph, Imported& facts) {
  const std::string who = fmt::format("input \"{}\"", input.name());
  if (!input.type().has_tensor_type()) fail(ErrorCode::kUsage, "{}: not a tensor", who);
  const auto& tensor = input.type().tensor_type();
  const bool whole = tensor.elem_type() == onnx::TensorProto::INT64 || tensor.elem_type() == onnx::TensorProto::INT32;
  const auto rank = to_size(tensor.shape().dim_size());
  const std::string axes = axes_of_input(proto, input, whole);
  if (axes.empty())
    fail(ErrorCode::kUsage,
         "{}: {} axes; read are samples x features, samples x channels x rows (x columns), steps of features, and samples of ids", who,
         rank);
  Shape shape{1, 1, 1};
  bool assumed = false;
  for (size_t i = 0; i < rank; ++i) {
    const auto& dim = tensor.shape().dim(static_cast<int>(i));
    const bool known = dim.has_dim_value() && dim.dim_value() > 0;
    const bool steps = axes[i] == 'H' && axes != "NCHW" && axes != "NCH";
    if (axes[i] == 'N') {
      if (known) graph.samples = dim.dim_value();
      continue;
    }
    if (!known && !steps)
      fail(ErrorCode::kUsage, "{}: axis {} is open (\"{}\"); only the number of samples and of steps may be. Export it with numbers", who,
           i, dim.dim_param());
    if (known && dim.dim_value() > INT32_MAX) fail(ErrorCode::kUsage, "{}: axis {} of {}", who, i, dim.dim_value());
    const int64_t extent = known ? dim.dim_value() : kAssumedSteps;
    assumed = assumed || !known;
    (axes[i] == 'C' ? shape.channels : axes[i] == 'H' ? shape.height : shape.width) = extent;
  }
  const InputKind kind = whole ? InputKind::kTokens : axes == "NHC" || axes == "HNC" ? InputKind::kFeatures : InputKind::kImage;
  graph.net.set_input(kind, shape);
  if (assumed) graph.net.note(fmt::format("{}: the number of steps is open; {} are assumed until data says otherwise", who, kAssumedSteps));
  graph.activations.emplace(input.name(), OnnxActivation{graph.net.input(), axes, false});
  facts.input_axes = axes;
}

int64_t opset_of(const ModelProto& model) {
  int64_t opset = 1;
  for (const auto& import : model.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx") opset = import.version();
  return opset;
}

Imported convert(const ModelProto& model, std::string_view origin, const std::filesystem::path& folder) {
  const GraphProto& proto = model.graph();
  const int64_t opset = opset_of(model);
  if (opset < 1 || opset > kLatestOpset)
    fail(ErrorCode::kUsage, "{}: opset {}, 1 to {} are read; export it with opset {}", origin, opset, kLatestOpset, kLatestOpset);
  if (proto.node_size() > kMostNodes) fail(ErrorCode::kUsage, "{}: {} nodes, at most {} are read", origin, proto.node_size(), kMostNodes);
  if (proto.sparse_initializer_size() > 0) fail(ErrorCode::kUsage, "{}: sparse weights (sparse_initializer)", origin);
  if (proto.output_size() != 1) fail(ErrorCode::kUsage, "{}: {} outputs, networks with one are read", origin, proto.output_size());

  NetworkWriter net(proto.name(), fmt::format("{} (ONNX, opset {})", std::filesystem::path(origin).filename().string(), opset));
  OnnxGraph graph{
      .net = net, .folder = folder, .constants = {}, .activations = {}, .filled = {}, .last_states = {}, .stacks = {}, .readers = {}};
  for (const onnx::TensorProto& tensor : proto.initializer())
    if (!graph.constants.emplace(tensor.name(), read_onnx_tensor(tensor, fmt::format("tensor \"{}\"", tensor.name()), folder)).second)
      fail(ErrorCode::kMalformed, "tensor \"{}\" is there twice", tensor.name());
  for (const NodeProto& node : proto.node())
    for (const std::string& name : node.input()) ++graph.readers[name];
  ++graph.readers[proto.output(0).name()];

  Imported facts;
  std::string input;
  for (const ValueInfoProto& one : proto.input()) {
    if (graph.is_constant(one.name())) continue;  // older files list the weights among the inputs
    if (!input.empty()) fail(ErrorCode::kUsage, "inputs \"{}\" and \"{}\"; networks with one are read", input, one.name());
    input = one.name();
    read_input(one, proto, graph, facts);
  }
  if (input.empty()) fail(ErrorCode::kUsage, "{}: a graph without an input", origin);

  for (const NodeProto& one : proto.node()) {
    OnnxNode node(one, opset);
    if (!one.domain().empty() && one.domain() != "ai.onnx") node.refuse("operators of domain \"{}\" are not known", one.domain());
    if (one.output_size() == 0) fail(ErrorCode::kMalformed, "{}: a node without an output; the file is damaged", node.who());
    if (!convert_onnx_states(node, graph) && !convert_onnx_layer(node, graph) && !convert_onnx_arrangement(node, graph) &&
        !convert_onnx_recurrence(node, graph))
      node.refuse("this operator (opset {}) has no counterpart here", opset);
  }
  read_last_state(graph, proto.output(0).name());
  const auto scores = graph.activations.find(proto.output(0).name());
  if (graph.is_constant(proto.output(0).name()) || graph.filled.contains(proto.output(0).name()))
    fail(ErrorCode::kUsage, "{}: its output \"{}\" is a shape or a constant, no score of a network", origin, proto.output(0).name());
  if (scores == graph.activations.end())
    fail(ErrorCode::kMalformed, "{}: its output \"{}\" is made by no node", origin, proto.output(0).name());
  facts.output_axes = scores->second.axes;
  Imported imported = net.finish(scores->second.value);
  imported.input_axes = facts.input_axes;
  imported.output_axes = facts.output_axes;
  return imported;
}

}  // namespace

Imported import_onnx(std::span<const std::byte> bytes, std::string_view origin, const std::filesystem::path& folder) {
  constexpr size_t kMostBytes = INT32_MAX;  // a protocol buffer's own limit
  if (bytes.size() > kMostBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, ONNX files of at most {} are read", origin, bytes.size(), kMostBytes);
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  constexpr int kDeepest = 64;
  stream.SetRecursionLimit(kDeepest);
  ModelProto model;
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage() || !model.has_graph())
    fail(ErrorCode::kMalformed, "{}: no ONNX file, or a damaged one", origin);
  try {
    return convert(model, origin, folder);
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with(origin)) throw;
    throw error.within(std::string(origin));
  }
}
#else
Imported import_onnx(std::span<const std::byte>, std::string_view origin, const std::filesystem::path&) {
  fail(ErrorCode::kUnavailable, "{}: this build reads no ONNX; install libonnx-dev and configure again", origin);
}
#endif

Imported import_onnx(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_bytes(path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  return import_onnx(bytes, path.string(), folder);
}

}  // namespace millrace
