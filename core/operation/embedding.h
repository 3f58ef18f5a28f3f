// A row of a table for every token id.
//
//   const Embedding embedding{.vocabulary = 1000, .dimension = 64};
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

struct Embedding {  // {1, T, 1} of token ids -> {dimension, T, 1}
  int64_t vocabulary = 0;
  int64_t dimension = 0;
  bool operator==(const Embedding&) const = default;

  static constexpr Role kRole = Role::kLookUp;
  static constexpr bool kDivides = false;
  static std::vector<Embedding> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const;
  int64_t weight_uses(const Shape&) const { return 0; }  // nothing is multiplied
  int64_t sum_channels(const Shape& output) const { return output.channels; }

  static void fields(auto& v) {
    v.field("vocabulary", &Embedding::vocabulary, text::Presence::kRequired, text::kSize);
    v.field("dimension", &Embedding::dimension, text::Presence::kRequired, text::kSize);
  }
};

using LookUps = Operations<Embedding>;

}  // namespace millrace
