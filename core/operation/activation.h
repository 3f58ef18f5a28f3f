// Functions of single elements: the activations.
//
//   const Activation relu{ActivationKind::kRelu};
//
// Their arithmetic is core/device/activation_math.h, for every device; an activation more is a field of the model document, its
// lines here and its line there. What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <array>
#include <optional>
#include <span>
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
  // Of the two straight lines that it is made of: the slope below 0; above, it is 1. Nothing where it is curved.
  std::optional<double> slope_below_zero() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }

  bool has_fields() const { return kind == ActivationKind::kLeakyRelu; }
  static void fields(auto& v) { v.field("slope", &Activation::slope, text::Presence::kDefaulted, text::kFinite); }
};

}  // namespace millrace
