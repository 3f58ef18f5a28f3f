// Random geometries and random elements for tests of the engine's arithmetic.
//
//   std::mt19937_64 random(7);
//   const ConvolutionShape shape = random_shape(random);
//   const std::vector<int16_t> input = random_elements(random, shape.input_elements(), /*bits=*/16);
//
// Kernels of 1, 3, 5, 7 and 11, strides of 1, 2 and 4, padding up to what keeps every window on the input, odd sizes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

inline int64_t drawn(std::mt19937_64& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

inline std::vector<int16_t> random_elements(std::mt19937_64& random, size_t count, int bits) {
  std::vector<int16_t> elements(count);
  const int64_t half = int64_t{1} << (bits - 1);
  for (int16_t& element : elements) element = static_cast<int16_t>(drawn(random, -half, half - 1));
  return elements;
}

inline ConvolutionShape random_shape(std::mt19937_64& random) {
  constexpr std::array<int64_t, 5> kKernels = {1, 3, 5, 7, 11};
  constexpr std::array<int64_t, 3> kStrides = {1, 2, 4};
  ConvolutionShape shape;
  shape.kernel_h = kKernels[random() % kKernels.size()];
  shape.kernel_w = random() % 2 ? shape.kernel_h : kKernels[random() % kKernels.size()];
  shape.stride_h = kStrides[random() % kStrides.size()];
  shape.stride_w = random() % 2 ? shape.stride_h : kStrides[random() % kStrides.size()];
  shape.pad_h = drawn(random, 0, shape.kernel_h / 2);
  shape.pad_w = drawn(random, 0, shape.kernel_w / 2);
  shape.dilation_h = random() % 4 == 0 ? 2 : 1;
  shape.height = drawn(random, std::max<int64_t>(1, shape.dilation_h * (shape.kernel_h - 1) + 1 - 2 * shape.pad_h), 24);
  shape.width = drawn(random, std::max<int64_t>(1, shape.kernel_w - 2 * shape.pad_w), 14);
  shape.height = std::max(shape.height, shape.dilation_h * (shape.kernel_h - 1) + 1 - 2 * shape.pad_h);
  shape.groups = random() % 4 == 0 ? 2 : 1;
  shape.inputs = shape.groups * drawn(random, 1, 5);
  shape.outputs = shape.groups * drawn(random, 1, 5);
  return shape;
}

}  // namespace millrace
