// Which tensors an operation learns or keeps, and how large they are. Names and dimensions are PyTorch's.
#include "core/graph/counting.h"
#include "core/graph/graph.h"

namespace millrace {

namespace {

int64_t gates_of(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm: return 4;
    case CellKind::kGru: return 3;
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return 1;
  }
  return 1;
}

struct ParameterRules {
  std::span<const Shape> inputs;

  std::vector<ParameterSpec> operator()(const Conv2d& conv) const {
    std::vector<ParameterSpec> parameters{{"weight", {conv.out_channels, inputs[0].channels / conv.groups, conv.kernel_h, conv.kernel_w}}};
    if (conv.bias) parameters.push_back({"bias", {conv.out_channels}});
    return parameters;
  }
  std::vector<ParameterSpec> operator()(const Dense& dense) const {
    std::vector<ParameterSpec> parameters{{"weight", {dense.out_features, inputs[0].channels}}};
    if (dense.bias) parameters.push_back({"bias", {dense.out_features}});
    return parameters;
  }
  std::vector<ParameterSpec> operator()(const BatchNorm&) const {
    const std::vector<int64_t> per_channel{inputs[0].channels};
    return {{"weight", per_channel}, {"bias", per_channel}, {"running_mean", per_channel, false}, {"running_var", per_channel, false}};
  }
  std::vector<ParameterSpec> operator()(const Recurrent& cell) const {
    const int64_t rows = gates_of(cell.cell) * cell.hidden;
    const int64_t fed_back = cell.projection > 0 ? cell.projection : cell.hidden;
    std::vector<ParameterSpec> parameters;
    for (const std::string suffix : {"", "_reverse"}) {
      parameters.push_back({"weight_ih" + suffix, {rows, inputs[0].channels}});
      parameters.push_back({"weight_hh" + suffix, {rows, fed_back}});
      parameters.push_back({"bias_ih" + suffix, {rows}});
      parameters.push_back({"bias_hh" + suffix, {rows}});
      if (cell.projection > 0) parameters.push_back({"weight_hr" + suffix, {cell.projection, cell.hidden}});
      if (!cell.bidirectional) break;
    }
    return parameters;
  }
  std::vector<ParameterSpec> operator()(const Embedding& embedding) const {
    return {{"weight", {embedding.vocabulary, embedding.dimension}}};
  }
  template <typename Other>
  std::vector<ParameterSpec> operator()(const Other&) const {
    return {};
  }
};

}  // namespace

int64_t ParameterSpec::elements() const {
  int64_t elements = 1;
  for (const int64_t dimension : dimensions) elements = saturating_product({elements, dimension});
  return elements;
}

std::vector<ParameterSpec> parameters_of(const Operation& operation, std::span<const Shape> inputs) {
  return std::visit(ParameterRules{inputs}, operation);
}

}  // namespace millrace
