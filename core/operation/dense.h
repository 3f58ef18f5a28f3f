// The fully connected layer; on a sequence it works on every step alike.
//
//   const Dense dense{.out_features = 10};
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

struct Dense {
  int64_t out_features = 0;
  bool bias = true;
  bool operator==(const Dense&) const = default;

  static constexpr Role kRole = Role::kProduct;
  static constexpr bool kDivides = true;
  static std::vector<Dense> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const;
  int64_t weight_uses(const Shape& output) const { return output.height; }
  int64_t sum_channels(const Shape& output) const { return output.channels; }
  // What a block of it is by itself.
  Dense block(int64_t all_inputs, int64_t inputs, int64_t outputs) const;

  static void fields(auto& v) {
    v.field("out_features", &Dense::out_features, text::Presence::kRequired, text::kSize);
    v.field("bias", &Dense::bias, text::Presence::kDefaulted);
  }
};

using Products = Operations<Dense>;

}  // namespace millrace
