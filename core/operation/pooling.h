// The largest or the average of a window, or of a whole map.
//
//   const Pool2d pool{.kind = PoolKind::kAverage, .kernel_h = 3, .kernel_w = 3};
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

enum class PoolKind { kMax, kAverage };
struct Pool2d {
  PoolKind kind = PoolKind::kMax;
  int64_t kernel_h = 2, kernel_w = 2;
  int64_t stride_h = 2, stride_w = 2;
  int64_t pad_h = 0, pad_w = 0;
  bool ceil_mode = false;          // the last, partial window counts
  bool count_include_pad = false;  // average only: divide by what of the window lies in input and padding
  bool operator==(const Pool2d&) const = default;

  static constexpr Role kRole = Role::kPooling;
  static constexpr bool kDivides = false;
  static std::vector<Pool2d> kinds() { return {{.kind = PoolKind::kMax}, {.kind = PoolKind::kAverage}}; }
  Traits traits() const;
  SlidingWindow rows() const { return {kernel_h, stride_h, pad_h, 1, ceil_mode}; }
  SlidingWindow columns() const { return {kernel_w, stride_w, pad_w, 1, ceil_mode}; }
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }

  static void fields(auto& v) {
    using enum text::Presence;
    v.pair("kernel", "kernel_h", "kernel_w", &Pool2d::kernel_h, &Pool2d::kernel_w, kRecorded, text::kSize);
    v.pair("stride", "stride_h", "stride_w", &Pool2d::stride_h, &Pool2d::stride_w, kRecorded, text::kSize);
    v.pair("pad", "pad_h", "pad_w", &Pool2d::pad_h, &Pool2d::pad_w, kDefaulted, text::kPadding);
    v.field("ceil_mode", &Pool2d::ceil_mode, kDefaulted);
    v.field("count_include_pad", &Pool2d::count_include_pad, kDefaulted);
  }
  void check(const text::Path& where) const;
};

struct GlobalPool {
  PoolKind kind = PoolKind::kAverage;
  bool operator==(const GlobalPool&) const = default;

  static constexpr Role kRole = Role::kPooling;
  static constexpr bool kDivides = false;
  static std::vector<GlobalPool> kinds() { return {{.kind = PoolKind::kMax}, {.kind = PoolKind::kAverage}}; }
  Traits traits() const;
  Shape output_shape(const ShapeRules& rules) const { return {rules.only_input().channels, 1, 1}; }
  std::vector<ParameterSpec> parameters(std::span<const Shape>) const { return {}; }
  static void fields(auto&) {}
};

using Poolings = Operations<Pool2d, GlobalPool>;

}  // namespace millrace
