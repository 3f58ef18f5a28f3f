#include "core/operation/normalisation.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/field_rules.h"

namespace millrace {

Traits BatchNorm::traits() const {
  return {.name = "batch_norm",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,  // its parameters are as many as its channels
          .hides_input = true,
          .fuses_activation = true,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape BatchNorm::output_shape(const ShapeRules& rules) const {
  if (!(epsilon > 0) || !std::isfinite(epsilon)) fail(ErrorCode::kMalformed, "{}: epsilon is {}; it must be above 0", rules.who(), epsilon);
  rules.in_range("momentum", momentum, 0, 1);
  return rules.only_input();
}

std::vector<ParameterSpec> BatchNorm::parameters(std::span<const Shape> inputs) const {
  const std::vector<int64_t> per_channel{inputs[0].channels};
  std::vector<ParameterSpec> parameters{{"weight", per_channel, true, Start::kOne},
                                        {"bias", per_channel, true, Start::kZero},
                                        {"running_mean", per_channel, false, Start::kZero},
                                        {"running_var", per_channel, false, Start::kOne}};
  if (statistics == Statistics::kRunning)
    for (const char* const tensor : {"running_error", "running_projection"})
      parameters.push_back({tensor, per_channel, false, Start::kZero});
  return parameters;
}

Traits LocalResponseNorm::traits() const {
  return {.name = "local_response_norm",
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kNone,
          .keeps_channels = false,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape LocalResponseNorm::output_shape(const ShapeRules& rules) const {
  rules.positive("size", size);
  if (size % 2 == 0)
    fail(ErrorCode::kMalformed, "{}: size is {}; it must be odd, for the window is centred on a channel", rules.who(), size);
  if (!(k > 0) || !(alpha >= 0) || !std::isfinite(k) || !std::isfinite(alpha) || !std::isfinite(beta))
    fail(ErrorCode::kMalformed, "{}: k is {}, alpha {}, beta {}; k must be above 0, alpha at least 0, all finite", rules.who(), k, alpha,
         beta);
  return rules.only_input();
}

}  // namespace millrace
