// A convolution by plain loops, one element of the result at a time: for shapes that a library has no deterministic algorithm for. Runs on
// GPU and host like element work, gathers, and so gives the same bits every time. Slow: each element of a weight's gradient is one thread.
//
//   const DirectConvolution work = direct_convolution(call);
//   for (int64_t i = 0; i < work.elements(); ++i) work(i);
#pragma once

#include "gpu/device/engine.h"

namespace millrace::gpu {

struct DirectConvolution {
  ConvolutionGeometry g;
  ConvolutionPhase phase = ConvolutionPhase::kForward;
  Precision precision = Precision::kFloat32;
  const void* first = nullptr;
  const void* second = nullptr;
  void* result = nullptr;
  bool adds = false;

  MILLRACE_HOST_DEVICE int64_t elements() const {
    switch (phase) {
      case ConvolutionPhase::kForward: return g.samples * g.outputs * g.output_height * g.output_width;
      case ConvolutionPhase::kInputError: return g.samples * g.inputs * g.height * g.width;
      case ConvolutionPhase::kWeightGradient: break;
    }
    return g.outputs * (g.inputs / g.groups) * g.kernel_h * g.kernel_w;
  }

  MILLRACE_HOST_DEVICE void operator()(int64_t i) const {
    const float sum = phase == ConvolutionPhase::kForward      ? output(i)
                      : phase == ConvolutionPhase::kInputError ? input_error(i)
                                                               : gradient(i);
    if (precision == Precision::kFloat16)
      static_cast<uint16_t*>(result)[i] = float16_of(sum);
    else if (precision == Precision::kBfloat16)
      static_cast<uint16_t*>(result)[i] = bfloat16_of(sum);
    else
      static_cast<float*>(result)[i] = adds ? static_cast<float*>(result)[i] + sum : sum;
  }

 private:
  MILLRACE_HOST_DEVICE float load(const void* values, int64_t i) const {
    if (precision == Precision::kFloat16) return float_of_float16(static_cast<const uint16_t*>(values)[i]);
    if (precision == Precision::kBfloat16) return float_of_bfloat16(static_cast<const uint16_t*>(values)[i]);
    return static_cast<const float*>(values)[i];
  }
  MILLRACE_HOST_DEVICE int64_t inputs_each() const { return g.inputs / g.groups; }
  MILLRACE_HOST_DEVICE int64_t outputs_each() const { return g.outputs / g.groups; }
  MILLRACE_HOST_DEVICE int64_t input_at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return ((n * g.inputs + c) * g.height + row) * g.width + column;
  }
  MILLRACE_HOST_DEVICE int64_t output_at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return ((n * g.outputs + c) * g.output_height + row) * g.output_width + column;
  }
  MILLRACE_HOST_DEVICE int64_t weight_at(int64_t output, int64_t input, int64_t row, int64_t column) const {
    return ((output * inputs_each() + input) * g.kernel_h + row) * g.kernel_w + column;
  }

  MILLRACE_HOST_DEVICE float output(int64_t i) const {
    const int64_t x = i % g.output_width, y = i / g.output_width % g.output_height;
    const int64_t o = i / (g.output_width * g.output_height) % g.outputs, n = i / (g.output_width * g.output_height * g.outputs);
    float sum = 0;
    for (int64_t c = 0; c < inputs_each(); ++c)
      for (int64_t kr = 0; kr < g.kernel_h; ++kr) {
        const int64_t row = y * g.stride_h - g.pad_h + kr * g.dilation_h;
        if (row < 0 || row >= g.height) continue;
        for (int64_t kc = 0; kc < g.kernel_w; ++kc) {
          const int64_t column = x * g.stride_w - g.pad_w + kc * g.dilation_w;
          if (column < 0 || column >= g.width) continue;
          sum += load(first, input_at(n, o / outputs_each() * inputs_each() + c, row, column)) * load(second, weight_at(o, c, kr, kc));
        }
      }
    return sum;
  }

  MILLRACE_HOST_DEVICE float input_error(int64_t i) const {
    const int64_t column = i % g.width, row = i / g.width % g.height;
    const int64_t c = i / (g.width * g.height) % g.inputs, n = i / (g.width * g.height * g.inputs);
    const int64_t group = c / inputs_each();
    float sum = 0;
    for (int64_t o = group * outputs_each(); o < (group + 1) * outputs_each(); ++o)
      for (int64_t kr = 0; kr < g.kernel_h; ++kr) {
        const int64_t down = row + g.pad_h - kr * g.dilation_h;
        if (down < 0 || down % g.stride_h != 0 || down / g.stride_h >= g.output_height) continue;
        for (int64_t kc = 0; kc < g.kernel_w; ++kc) {
          const int64_t right = column + g.pad_w - kc * g.dilation_w;
          if (right < 0 || right % g.stride_w != 0 || right / g.stride_w >= g.output_width) continue;
          sum +=
              load(first, output_at(n, o, down / g.stride_h, right / g.stride_w)) * load(second, weight_at(o, c % inputs_each(), kr, kc));
        }
      }
    return sum;
  }

  MILLRACE_HOST_DEVICE float gradient(int64_t i) const {
    const int64_t kc = i % g.kernel_w, kr = i / g.kernel_w % g.kernel_h;
    const int64_t c = i / (g.kernel_w * g.kernel_h) % inputs_each(), o = i / (g.kernel_w * g.kernel_h * inputs_each());
    float sum = 0;
    for (int64_t n = 0; n < g.samples; ++n)
      for (int64_t y = 0; y < g.output_height; ++y) {
        const int64_t row = y * g.stride_h - g.pad_h + kr * g.dilation_h;
        if (row < 0 || row >= g.height) continue;
        for (int64_t x = 0; x < g.output_width; ++x) {
          const int64_t column = x * g.stride_w - g.pad_w + kc * g.dilation_w;
          if (column < 0 || column >= g.width) continue;
          sum += load(first, input_at(n, o / outputs_each() * inputs_each() + c, row, column)) * load(second, output_at(n, o, y, x));
        }
      }
    return sum;
  }
};

inline DirectConvolution direct_convolution(const Convolution& call) {
  return {.g = call.geometry,
          .phase = call.phase,
          .precision = call.precision,
          .first = call.first,
          .second = call.second,
          .result = call.result,
          .adds = call.adds};
}

}  // namespace millrace::gpu
