// The geometry of one convolution of one sample, as every face of the engine sees it.
//
//   const ConvolutionShape shape{.inputs = 3, .outputs = 16, .height = 32, .width = 32, .kernel_h = 3, .kernel_w = 3,
//                                .pad_h = 1, .pad_w = 1};
//   shape.out_height();   // 32
//
// A dense layer is a convolution with a kernel of one on a plane of one. Data is canonical: [channel][row][column], weights
// [output][input of its group][kernel row][kernel column].
// Limits: channels are multiples of the groups; the kernel with its dilation fits the padded plane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/index.h"

namespace millrace {

struct ConvolutionShape {
  int64_t inputs = 1, outputs = 1;
  int64_t height = 1, width = 1;  // of the input
  int64_t kernel_h = 1, kernel_w = 1;
  int64_t stride_h = 1, stride_w = 1;
  int64_t pad_h = 0, pad_w = 0;
  int64_t dilation_h = 1, dilation_w = 1;
  int64_t groups = 1;
  bool operator==(const ConvolutionShape&) const = default;

  int64_t out_height() const { return (height + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  int64_t out_width() const { return (width + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  size_t input_elements() const { return to_size(inputs * height * width); }
  size_t output_elements() const { return to_size(outputs * out_height() * out_width()); }
  size_t weight_elements() const { return to_size(outputs * (inputs / groups) * kernel_h * kernel_w); }
};

}  // namespace millrace
