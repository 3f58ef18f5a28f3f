// Scores into errors: the network's last layer.
//
//   net.finish(CtcLoss{.blank = 0});
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

struct SoftmaxCrossEntropy {  // softmax over channels, at every row and column
  bool operator==(const SoftmaxCrossEntropy&) const = default;

  static constexpr Role kRole = Role::kLoss;
  static constexpr bool kDivides = false;
  static std::vector<SoftmaxCrossEntropy> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const { return rules.only_input(); }
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

struct CtcLoss {
  int64_t blank = 0;
  bool operator==(const CtcLoss&) const = default;

  static constexpr Role kRole = Role::kLoss;
  static constexpr bool kDivides = false;
  static std::vector<CtcLoss> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto& v) { v.field("blank", &CtcLoss::blank, text::Presence::kDefaulted, text::kOptionalSize); }
};

using Losses = Operations<SoftmaxCrossEntropy, CtcLoss>;

}  // namespace millrace
