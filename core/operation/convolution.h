// The two-dimensional convolution.
//
//   const Conv2d conv{.out_channels = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
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

struct Conv2d {
  int64_t out_channels = 0;
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  bool bias = true;
  bool operator==(const Conv2d&) const = default;

  static constexpr Role kRole = Role::kConvolution;
  static constexpr bool kDivides = true;
  static std::vector<Conv2d> kinds() { return {{}}; }
  Traits traits() const;
  SlidingWindow rows() const { return {kernel_h, stride_h, pad_h, dilation_h}; }
  SlidingWindow columns() const { return {kernel_w, stride_w, pad_w, dilation_w}; }
  Shape output_shape(const ShapeRules& rules) const;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const;
  int64_t weight_uses(const Shape& output) const { return output.plane(); }
  int64_t sum_channels(const Shape& output) const { return output.channels; }
  // What a block of it is by itself. `all_inputs`: the whole layer's; a grouped convolution is cut between its groups.
  Conv2d block(int64_t all_inputs, int64_t inputs, int64_t outputs) const;

  static void fields(auto& v) {
    using enum text::Presence;
    v.field("out_channels", &Conv2d::out_channels, kRequired, text::kSize);
    v.pair("kernel", "kernel_h", "kernel_w", &Conv2d::kernel_h, &Conv2d::kernel_w, kRecorded, text::kSize);
    v.pair("stride", "stride_h", "stride_w", &Conv2d::stride_h, &Conv2d::stride_w, kDefaulted, text::kSize);
    v.pair("pad", "pad_h", "pad_w", &Conv2d::pad_h, &Conv2d::pad_w, kDefaulted, text::kPadding);
    v.pair("dilation", "dilation_h", "dilation_w", &Conv2d::dilation_h, &Conv2d::dilation_w, kDefaulted, text::kSize);
    v.field("groups", &Conv2d::groups, kDefaulted, text::kSize);
    v.field("bias", &Conv2d::bias, kDefaulted);
  }
  void check(const text::Path& where) const;
};

using Convolutions = Operations<Conv2d>;

}  // namespace millrace
