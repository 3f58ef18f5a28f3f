#include "core/operation/activation.h"

#include <cmath>

#include "core/base/error.h"

namespace millrace {
namespace {

std::string_view word_for(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kRelu: return "relu";
    case ActivationKind::kLeakyRelu: return "leaky_relu";
    case ActivationKind::kSigmoid: return "sigmoid";
    case ActivationKind::kTanh: return "tanh";
  }
  return "unknown";
}

}  // namespace

std::vector<Activation> Activation::kinds() {
  std::vector<Activation> all;
  for (const ActivationKind kind : kActivationKinds) all.push_back({.kind = kind});
  return all;
}

Traits Activation::traits() const {
  return {.name = word_for(kind),
          .rows = Rows::kOwn,
          .chunks = TimeChunks::kOfSequences,
          .keeps_channels = true,
          .hides_input = false,
          .fuses_activation = false,
          .keeps_state = false,
          .reads_tokens = false};
}

std::optional<double> Activation::slope_below_zero() const {
  switch (kind) {
    case ActivationKind::kRelu: return 0;
    case ActivationKind::kLeakyRelu: return slope;
    case ActivationKind::kSigmoid:
    case ActivationKind::kTanh: break;
  }
  return std::nullopt;
}

Shape Activation::output_shape(const ShapeRules& rules) const {
  if (!std::isfinite(slope)) fail(ErrorCode::kMalformed, "{}: slope is {}; it must be finite", rules.who(), slope);
  return rules.only_input();
}

}  // namespace millrace
