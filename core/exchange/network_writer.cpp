#include "core/exchange/network_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/graph/graph.h"

namespace millrace {

std::string document_name(std::string_view name) {
  std::string result;
  for (const char c : name) {
    const bool fits =
        ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_' || c == '.' || c == '-' || c == '/';
    result += fits ? c : '_';
  }
  constexpr size_t kLongest = 200;
  return result.substr(0, kLongest);
}

std::vector<float> reorder_blocks(const std::vector<float>& values, int64_t columns, const std::vector<int>& order) {
  const size_t block = values.size() / order.size();
  MILLRACE_CHECK(block * order.size() == values.size() && block % to_size(columns) == 0, "{} values in {} blocks of rows of {}",
                 values.size(), order.size(), columns);
  std::vector<float> result;
  result.reserve(values.size());
  for (const int from : order) {
    const auto begin = values.begin() + static_cast<ptrdiff_t>(block * to_size(from));
    result.insert(result.end(), begin, begin + static_cast<ptrdiff_t>(block));
  }
  return result;
}

std::vector<float> transposed(const std::vector<float>& values, int64_t rows, int64_t columns) {
  std::vector<float> result(values.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) item(result, c * rows + r) = item(values, r * columns + c);
  return result;
}

NetworkWriter::NetworkWriter(std::string_view name, std::string source) : names_{std::string(kInputName), "loss"} {
  imported_.model.name = name.empty() ? "imported" : document_name(name);
  imported_.source = std::move(source);
}

void NetworkWriter::set_input(InputKind kind, const Shape& shape) {
  imported_.model.input_kind = kind;
  imported_.model.input = shape;
}

std::string NetworkWriter::unique(std::string_view name) {
  const std::string wanted = name.empty() ? "layer" : document_name(name);
  std::string found = wanted;
  for (int i = 2; !names_.insert(found).second; ++i) found = fmt::format("{}_{}", wanted, i);
  return found;
}

NetworkValue NetworkWriter::add(std::string_view name, Operation operation, const std::vector<NetworkValue>& inputs) {
  std::vector<Shape> shapes;
  Layer layer{.name = unique(name), .operation = std::move(operation), .inputs = {}};
  for (const NetworkValue& input : inputs) {
    layer.inputs.push_back(input.layer);
    shapes.push_back(input.shape);
  }
  const Shape output = infer_shape(layer.operation, shapes, fmt::format("layer \"{}\"", layer.name));
  inputs_[layer.name] = shapes;
  imported_.model.layers.push_back(std::move(layer));
  return {imported_.model.layers.back().name, output};
}

Operation& NetworkWriter::operation_of(const std::string& layer) {
  const auto found = std::ranges::find(imported_.model.layers, layer, &Layer::name);
  MILLRACE_CHECK(found != imported_.model.layers.end(), "layer \"{}\" was never added", layer);
  return found->operation;
}

void NetworkWriter::set_weight(const std::string& layer, const std::string& tensor, std::vector<int64_t> dimensions,
                               const std::vector<float>& values, std::string source, std::string transform) {
  const std::vector<ParameterSpec> parameters = parameters_of(operation_of(layer), inputs_.at(layer));
  const auto wanted = std::ranges::find(parameters, tensor, &ParameterSpec::tensor);
  MILLRACE_CHECK(wanted != parameters.end(), "layer \"{}\" has no tensor \"{}\"", layer, tensor);
  if (wanted->dimensions != dimensions)
    fail(ErrorCode::kMismatch, "layer \"{}\": its {} is [{}] out of {}, [{}] was expected; the weights belong to another model", layer,
         tensor, fmt::join(dimensions, ", "), source, fmt::join(wanted->dimensions, ", "));
  const std::string name = layer + "." + tensor;
  imported_.weights[name] = host_tensor(std::move(dimensions), std::span<const float>(values));
  imported_.tensors.push_back({name, std::move(source), std::move(transform)});
}

Imported NetworkWriter::finish(const NetworkValue& scores) {
  imported_.model.layers.push_back({.name = "loss", .operation = SoftmaxCrossEntropy{}, .inputs = {scores.layer}});
  const Graph graph(imported_.model);
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters)
      MILLRACE_CHECK(imported_.weights.contains(node.layer.name + "." + parameter.tensor), "{}.{} was never set", node.layer.name,
                     parameter.tensor);
  return std::move(imported_);
}

}  // namespace millrace
