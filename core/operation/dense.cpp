#include "core/operation/dense.h"

#include "core/base/error.h"

namespace millrace {

Traits Dense::traits() const {
  return {.name = "dense",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = true,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Dense::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.only_input();
  rules.positive("out_features", out_features);
  if (input.width != 1)
    fail(ErrorCode::kMismatch,
         "{}: its input {} is a feature map, but dense works on features, or on {{features, steps, 1}} step by step: "
         "put a flatten layer before it, which gives {}",
         rules.who(), text_of(input), text_of(Shape{input.elements()}));
  return {out_features, input.height, 1};
}

std::vector<ParameterSpec> Dense::parameters(std::span<const Shape> inputs) const {
  std::vector<ParameterSpec> parameters{{"weight", {out_features, inputs[0].channels}}};
  if (bias) parameters.push_back({"bias", {out_features}});
  return parameters;
}

Dense Dense::block(int64_t, int64_t, int64_t outputs) const {
  Dense part = *this;
  part.out_features = outputs;
  return part;
}

}  // namespace millrace
