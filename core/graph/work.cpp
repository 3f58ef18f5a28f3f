// Exact work of one operation on one sample. A multiply-accumulate is counted where a weight meets an activation:
// convolution, dense and recurrent products. Biases, poolings, normalisations, activations and the pointwise part of
// recurrent cells have none; an embedding is a look-up.
#include "core/graph/counting.h"
#include "core/graph/graph.h"

namespace millrace {

namespace {

// Every weight of these operations is used at each position of the plane it slides over, so work is weights times
// positions. FP, EB and PG visit the same pairs of weight and position.
int64_t positions_of(const Operation& operation, const Shape& output) {
  if (std::holds_alternative<Conv2d>(operation)) return output.plane();
  if (std::holds_alternative<Dense>(operation) || std::holds_alternative<Recurrent>(operation)) return output.height;
  return 0;
}

bool is_weight(const ParameterSpec& parameter) { return parameter.tensor.starts_with("weight"); }

}  // namespace

Work work_of(const Operation& operation, std::span<const Shape> inputs, const Shape& output) {
  Work work;
  int64_t weights = 0;
  for (const ParameterSpec& parameter : parameters_of(operation, inputs)) {
    if (parameter.trained) work.parameters = saturating_sum(work.parameters, parameter.elements());
    if (is_weight(parameter)) weights = saturating_sum(weights, parameter.elements());
  }
  const int64_t macs = saturating_product({weights, positions_of(operation, output)});
  work.forward_macs = work.error_back_macs = work.parameter_gradient_macs = macs;
  for (const Shape& input : inputs) work.input_elements += input.elements();
  work.output_elements = output.elements();
  return work;
}

}  // namespace millrace
