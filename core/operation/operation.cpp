#include "core/operation/operation.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/operation/counting.h"

namespace millrace {
namespace {

template <typename... T>
std::vector<Operation> all_kinds(const std::variant<T...>*) {
  std::vector<Operation> all;
  const auto append = [&all](const auto& kinds) { all.insert(all.end(), kinds.begin(), kinds.end()); };
  (append(T::kinds()), ...);
  return all;
}

bool is_weight(const ParameterSpec& parameter) { return parameter.tensor.starts_with("weight"); }

}  // namespace

std::string text_of(const Shape& shape) { return fmt::format("{}x{}x{}", shape.channels, shape.height, shape.width); }

int64_t ParameterSpec::elements() const {
  int64_t elements = 1;
  for (const int64_t dimension : dimensions) elements = saturating_product({elements, dimension});
  return elements;
}

const std::vector<Operation>& catalogue() {
  static const std::vector<Operation> all = all_kinds(static_cast<const Operation*>(nullptr));
  return all;
}

Traits traits_of(const Operation& operation) {
  return std::visit([](const auto& o) { return o.traits(); }, operation);
}

Role role_of(const Operation& operation) {
  return std::visit([]<typename T>(const T&) { return T::kRole; }, operation);
}

bool divides(const Operation& operation) {
  return std::visit([]<typename T>(const T&) { return T::kDivides; }, operation);
}

std::string_view name_of(const Operation& operation) { return traits_of(operation).name; }

std::vector<ParameterSpec> parameters_of(const Operation& operation, std::span<const Shape> inputs) {
  return std::visit([&](const auto& o) { return o.parameters(inputs); }, operation);
}

Shape infer_shape(const Operation& operation, std::span<const Shape> inputs, std::string_view where) {
  const ShapeRules rules(fmt::format("{} ({})", where, name_of(operation)), inputs);
  for (const Shape& input : inputs) rules.size("input", input);
  const Shape output = std::visit([&](const auto& o) { return o.output_shape(rules); }, operation);
  rules.size("output", output);
  for (const ParameterSpec& parameter : parameters_of(operation, inputs))
    if (parameter.elements() > kMostElements)
      fail(ErrorCode::kMismatch, "{}: its {} of {} has more than {} elements with input {} and output {}; no device holds it", rules.who(),
           parameter.tensor, fmt::join(parameter.dimensions, "x"), kMostElements, text_of(inputs[0]), text_of(output));
  if (work_of(operation, inputs, output).forward_macs > kMostMacs)
    fail(ErrorCode::kMismatch, "{}: more than {} multiply-accumulates per sample from input {} to output {}; check its fields", rules.who(),
         kMostMacs, text_of(inputs[0]), text_of(output));
  return output;
}

Work work_of(const Operation& operation, std::span<const Shape> inputs, const Shape& output) {
  Work work;
  int64_t weights = 0;
  for (const ParameterSpec& parameter : parameters_of(operation, inputs)) {
    if (parameter.trained) work.parameters = saturating_sum(work.parameters, parameter.elements());
    if (is_weight(parameter)) weights = saturating_sum(weights, parameter.elements());
  }
  // Every weight is used at each position of the plane it slides over. FP, EB and PG visit the same pairs of weight and position.
  const int64_t uses = std::visit(
      [&]<typename T>(const T& o) -> int64_t {
        if constexpr (computes(T::kRole)) return o.weight_uses(output);
        return 0;
      },
      operation);
  work.forward_macs = work.error_back_macs = work.parameter_gradient_macs = saturating_product({weights, uses});
  for (const Shape& input : inputs) work.input_elements += input.elements();
  work.output_elements = output.elements();
  return work;
}

int64_t sum_channels_of(const Operation& operation, const Shape& output) {
  return std::visit(
      [&]<typename T>(const T& o) -> int64_t {
        if constexpr (computes(T::kRole)) return o.sum_channels(output);
        return output.channels;
      },
      operation);
}

Operation block_of(const Operation& operation, int64_t all_inputs, int64_t inputs, int64_t outputs) {
  return std::visit(
      [&]<typename T>(const T& o) -> Operation {
        if constexpr (T::kDivides) return o.block(all_inputs, inputs, outputs);
        return o;
      },
      operation);
}

}  // namespace millrace
