#include "core/operation/joining.h"

#include "core/base/error.h"

namespace millrace {

Traits Add::traits() const {
  return {.name = "add",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kOfSequences,
          .keeps_channels = false,  // of one input alone it says nothing
          .hides_input = true,
          .fuses_activation = true,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Add::output_shape(const ShapeRules& rules) const {
  const std::span<const Shape> inputs = rules.several_inputs();
  for (const Shape& input : inputs)
    if (input != inputs[0])
      fail(ErrorCode::kMismatch,
           "{}: its inputs are {}, but add needs equal shapes; a shortcut past a stride or a change of channels needs "
           "a 1x1 convolution of that stride and those channels",
           rules.who(), rules.all_inputs());
  return inputs[0];
}

Traits Concat::traits() const {
  return {.name = "concat",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Concat::output_shape(const ShapeRules& rules) const {
  const std::span<const Shape> inputs = rules.several_inputs();
  Shape output = inputs[0];
  for (const Shape& input : inputs.subspan(1)) {
    if (input.height != output.height || input.width != output.width)
      fail(ErrorCode::kMismatch,
           "{}: its inputs are {}, but concat joins channels of maps with equal height and width; "
           "give the branches equal strides and enough padding",
           rules.who(), rules.all_inputs());
    output.channels += input.channels;
  }
  return output;
}

}  // namespace millrace
