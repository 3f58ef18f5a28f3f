#include "core/operation/dropout.h"

#include "core/base/error.h"

namespace millrace {

Traits Dropout::traits() const {
  return {.name = "dropout",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kOfSequences,
          .keeps_channels = true,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Dropout::output_shape(const ShapeRules& rules) const {
  if (!(probability >= 0 && probability < 1))
    fail(ErrorCode::kMalformed, "{}: probability is {}; it must be at least 0 and below 1", rules.who(), probability);
  return rules.only_input();
}

}  // namespace millrace
