// Elements left out at random while training.
//
//   const Dropout dropout{.probability = 0.3};
//
// What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <span>
#include <vector>

#include "core/base/field_kinds.h"
#include "core/operation/parameter.h"
#include "core/operation/shape_rules.h"
#include "core/operation/traits.h"

namespace millrace {

struct Dropout {
  double probability = 0.5;
  bool operator==(const Dropout&) const = default;

  static constexpr Role kRole = Role::kElementwise;
  static constexpr bool kDivides = false;
  static std::vector<Dropout> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto& v) { v.field("probability", &Dropout::probability, text::Presence::kRecorded, text::kFraction); }
};

using Dropouts = Operations<Dropout>;

}  // namespace millrace
