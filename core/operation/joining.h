// Several inputs into one output.
//
//   net.layer("sum", Add{}, {"conv2", "shortcut"});
//
// What every operation states about itself, and who asks, is in operation.h.
#pragma once

#include <span>
#include <vector>

#include "core/operation/parameter.h"
#include "core/operation/shape_rules.h"
#include "core/operation/traits.h"

namespace millrace {

struct Add {
  bool operator==(const Add&) const = default;

  static constexpr Role kRole = Role::kJoining;
  static constexpr bool kDivides = false;
  static std::vector<Add> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

struct Concat {  // along channels
  bool operator==(const Concat&) const = default;

  static constexpr Role kRole = Role::kJoining;
  static constexpr bool kDivides = false;
  static std::vector<Concat> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

using Joinings = Operations<Add, Concat>;

}  // namespace millrace
