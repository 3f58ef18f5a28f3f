// Functions of single elements: the activations.
//
//   const Activation relu{ActivationKind::kRelu};
//
// Their arithmetic is core/device/activation_math.h, for every device; an activation more is a field of the model document, its
// lines in this file and its lines there. What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/field_kinds.h"
#include "core/operation/parameter.h"
#include "core/operation/shape_rules.h"
#include "core/operation/traits.h"

namespace millrace {

enum class ActivationKind { kRelu, kLeakyRelu, kSigmoid, kTanh };
inline constexpr std::array kActivationKinds = {ActivationKind::kRelu, ActivationKind::kLeakyRelu, ActivationKind::kSigmoid,
                                                ActivationKind::kTanh};

struct Activation {
  ActivationKind kind = ActivationKind::kRelu;
  double slope = 0.01;  // leaky relu only
  bool operator==(const Activation&) const = default;

  static constexpr Role kRole = Role::kElementwise;
  static constexpr bool kDivides = false;
  static std::vector<Activation> kinds();
  Traits traits() const;
  // Its word in documents.
  std::string_view word() const {
    switch (kind) {
      case ActivationKind::kRelu: return "relu";
      case ActivationKind::kLeakyRelu: return "leaky_relu";
      case ActivationKind::kSigmoid: return "sigmoid";
      case ActivationKind::kTanh: return "tanh";
    }
    return "unknown";
  }
  // Of the two straight lines that it is made of: the slope below 0; above, it is 1. Nothing where it is curved.
  std::optional<double> slope_below_zero() const {
    switch (kind) {
      case ActivationKind::kRelu: return 0;
      case ActivationKind::kLeakyRelu: return slope;
      case ActivationKind::kSigmoid:
      case ActivationKind::kTanh: break;
    }
    return std::nullopt;
  }
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }

  bool has_fields() const { return kind == ActivationKind::kLeakyRelu; }
  static void fields(auto& v) { v.field("slope", &Activation::slope, text::Presence::kDefaulted, text::kFinite); }
};

using Activations = Operations<Activation>;

}  // namespace millrace
