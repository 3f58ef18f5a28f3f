#include "core/operation/embedding.h"

#include "core/base/error.h"

namespace millrace {

Traits Embedding::traits() const {
  return {.name = "embedding",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kAlways,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = true,
          .keeps_state = false,
          .reads_tokens = true};
}

Shape Embedding::output_shape(const ShapeRules& rules) const {
  const Shape& input = rules.sequence();
  rules.positive("vocabulary", vocabulary), rules.positive("dimension", dimension);
  constexpr int64_t kMostTokens = int64_t{1} << 24;
  if (vocabulary > kMostTokens)
    fail(ErrorCode::kMalformed, "{}: vocabulary is {}; token ids travel as fp32 numbers, which count to {}", rules.who(), vocabulary,
         kMostTokens);
  if (input.channels != 1) fail(ErrorCode::kMismatch, "{}: its input {} must be token ids, 1 x steps x 1", rules.who(), text_of(input));
  return {dimension, input.height, 1};
}

std::vector<ParameterSpec> Embedding::parameters(std::span<const Shape>) const {
  return {{.tensor = "weight", .dimensions = {vocabulary, dimension}, .torch = {.normal = true, .scale = 1}}};
}

}  // namespace millrace
