// Elements against statistics of others: of their channel, or of their neighbours in other channels.
//
//   const BatchNorm norm{.epsilon = 1e-3};
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

// What a batch norm's training normalises by.
enum class Statistics {
  kExact,    // mean and variance of the micro-batch
  kRunning,  // the running ones of the last update
};

struct BatchNorm {
  double epsilon = 1e-5;
  double momentum = 0.1;  // running = (1 - momentum) * running + momentum * batch
  Statistics statistics = Statistics::kExact;
  bool operator==(const BatchNorm&) const = default;

  static constexpr Role kRole = Role::kNormalisation;
  static constexpr bool kDivides = false;
  static std::vector<BatchNorm> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const;

  static void fields(auto& v) {
    v.field("epsilon", &BatchNorm::epsilon, text::Presence::kDefaulted, text::kPositive);
    v.field("momentum", &BatchNorm::momentum, text::Presence::kDefaulted, text::kShare);
    v.field("statistics", &BatchNorm::statistics, text::Presence::kDefaulted);
  }
};

struct LocalResponseNorm {  // across channels: x / (k + alpha / size * sum of squares)^beta
  int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1.0;
  bool operator==(const LocalResponseNorm&) const = default;

  static constexpr Role kRole = Role::kNormalisation;
  static constexpr bool kDivides = false;
  static std::vector<LocalResponseNorm> kinds() { return {{}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }

  static void fields(auto& v) {
    using enum text::Presence;
    v.field("size", &LocalResponseNorm::size, kDefaulted, text::kSize);
    v.field("alpha", &LocalResponseNorm::alpha, kDefaulted, text::kNotNegative);
    v.field("beta", &LocalResponseNorm::beta, kDefaulted, text::kFinite);
    v.field("k", &LocalResponseNorm::k, kDefaulted, text::kPositive);
  }
};

using Normalisations = Operations<BatchNorm, LocalResponseNorm>;

}  // namespace millrace
