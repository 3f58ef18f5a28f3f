// The same elements in another shape, or some of them.
//
//   net.layer("flat", Flatten{});
//
// What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <span>
#include <vector>

#include "core/operation/parameter.h"
#include "core/operation/shape_rules.h"
#include "core/operation/traits.h"

namespace millrace {

struct Flatten {  // {C, H, W} -> {C*H*W, 1, 1}
  bool operator==(const Flatten&) const = default;

  static constexpr Role kRole = Role::kRearrangement;
  static constexpr bool kDivides = false;
  static std::vector<Flatten> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const { return {rules.only_input().elements(), 1, 1}; }
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

struct ToSequence {  // {C, T, W} -> {C*W, T, 1}
  bool operator==(const ToSequence&) const = default;

  static constexpr Role kRole = Role::kRearrangement;
  static constexpr bool kDivides = false;
  static std::vector<ToSequence> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

struct LastStep {  // {F, T, 1} -> {F, 1, 1}
  bool operator==(const LastStep&) const = default;

  static constexpr Role kRole = Role::kRearrangement;
  static constexpr bool kDivides = false;
  static std::vector<LastStep> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const { return {rules.sequence().channels, 1, 1}; }
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

using Rearrangements = Operations<Flatten, ToSequence, LastStep>;

}  // namespace millrace
