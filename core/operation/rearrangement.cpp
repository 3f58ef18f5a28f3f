#include "core/operation/rearrangement.h"

namespace millrace {

Traits Flatten::traits() const {
  return {.name = "flatten",
          .rows = Rows::kAll,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Traits ToSequence::traits() const {
  return {.name = "to_sequence",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape ToSequence::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.only_input();
  return {input.channels * input.width, input.height, 1};
}

Traits LastStep::traits() const {
  return {.name = "last_step",
          .rows = Rows::kLast,
          .chunks = TimeChunks::kNone,
          .keeps_channels = true,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

}  // namespace millrace
