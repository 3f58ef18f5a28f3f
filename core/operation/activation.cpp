#include "core/operation/activation.h"

#include <cmath>

#include "core/base/error.h"

namespace millrace {

std::vector<Activation> Activation::kinds() {
  std::vector<Activation> all;
  for (const ActivationKind kind : kActivationKinds) all.push_back({.kind = kind});
  return all;
}

Traits Activation::traits() const {
  return {.name = word(),
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kOfSequences,
          .keeps_channels = true,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

Shape Activation::output_shape(const ShapeRules& rules) const {
  if (!std::isfinite(slope)) fail(ErrorCode::kMalformed, "{}: slope is {}; it must be finite", rules.who(), slope);
  return rules.only_input();
}

}  // namespace millrace
