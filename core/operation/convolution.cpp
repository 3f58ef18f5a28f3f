#include "core/operation/convolution.h"

#include "core/base/error.h"
#include "core/base/field_rules.h"

namespace millrace {

Traits Conv2d::traits() const {
  return {.name = "conv2d",
          .rows = Rows::kWindow,
          .row_window = rows(),
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = true,
          .keeps_state = false,
          .reads_tokens = false,
          .channel_groups = groups};
}

Shape Conv2d::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.only_input();
  rules.positive("out_channels", out_channels);
  rules.positive("kernel_h", kernel_h), rules.positive("kernel_w", kernel_w);
  rules.positive("stride_h", stride_h), rules.positive("stride_w", stride_w);
  rules.positive("dilation_h", dilation_h), rules.positive("dilation_w", dilation_w);
  rules.not_negative("pad_h", pad_h), rules.not_negative("pad_w", pad_w);
  rules.positive("groups", groups);
  if (input.channels % groups != 0 || out_channels % groups != 0)
    fail(ErrorCode::kMismatch, "{}: {} groups do not divide the {} channels of its input {} and its {} output channels evenly", rules.who(),
         groups, input.channels, text_of(input), out_channels);
  rules.window_fits(input, this->rows(), columns());
  return {out_channels, this->rows().positions(input.height), columns().positions(input.width)};
}

std::vector<ParameterSpec> Conv2d::parameters(std::span<const Shape> inputs) const {
  std::vector<ParameterSpec> parameters{{"weight", {out_channels, inputs[0].channels / groups, kernel_h, kernel_w}}};
  if (bias) parameters.push_back({"bias", {out_channels}});
  return parameters;
}

Conv2d Conv2d::block(int64_t all_inputs, int64_t inputs, int64_t outputs) const {
  Conv2d part = *this;
  if (groups > 1) part.groups = inputs / (all_inputs / groups);
  part.out_channels = outputs;
  return part;
}

void Conv2d::check(const text::Path& where) const {
  if (out_channels % groups != 0) text::Path(where, "groups").fail("{} must divide out_channels, which is {}", groups, out_channels);
}

}  // namespace millrace
