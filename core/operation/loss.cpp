#include "core/operation/loss.h"

#include "core/base/error.h"

namespace millrace {

Traits SoftmaxCrossEntropy::traits() const {
  return {.name = "softmax_cross_entropy",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Traits CtcLoss::traits() const {
  return {.name = "ctc_loss",
          .rows = Rows::kOwn,  // its scores; that its errors come from all of them is a matter of turning
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape CtcLoss::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.sequence();
  if (blank < 0 || blank >= input.channels)
    fail(ErrorCode::kMismatch, "{}: blank is {}, but its input {} has classes 0 to {}", rules.who(), blank, text_of(input),
         input.channels - 1);
  return input;
}

}  // namespace millrace
