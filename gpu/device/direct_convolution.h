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
  bool channels_last = false;

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
    const StoredFloats to{result, precision};
    const int64_t at = place_of_result(i);
    to.put(at, adds ? to.at(at) + sum : sum);
  }

 private:
  MILLRACE_HOST_DEVICE float load(const void* values, int64_t i) const {
    if (precision == Precision::kFloat16) return float_of_float16(static_cast<const uint16_t*>(values)[i]);
    if (precision == Precision::kBfloat16) return float_of_bfloat16(static_cast<const uint16_t*>(values)[i]);
    return static_cast<const float*>(values)[i];
  }
  // Results are counted in canonical order.
  MILLRACE_HOST_DEVICE int64_t place_of_result(int64_t i) const {
    if (!channels_last) return i;
    if (phase == ConvolutionPhase::kForward) return ChannelsLast{g.outputs, g.output_height * g.output_width}.in_channels_last(i);
    if (phase == ConvolutionPhase::kInputError) return ChannelsLast{g.inputs, g.height * g.width}.in_channels_last(i);
    return ChannelsLast{inputs_each(), g.kernel_h * g.kernel_w}.in_channels_last(i);
  }
  MILLRACE_HOST_DEVICE int64_t place(int64_t sample, int64_t channel, int64_t row, int64_t column, int64_t channels, int64_t height,
                                     int64_t width) const {
    return channels_last ? ((sample * height + row) * width + column) * channels + channel
                         : ((sample * channels + channel) * height + row) * width + column;
  }
  MILLRACE_HOST_DEVICE int64_t inputs_each() const { return g.inputs / g.groups; }
  MILLRACE_HOST_DEVICE int64_t outputs_each() const { return g.outputs / g.groups; }
  MILLRACE_HOST_DEVICE int64_t input_at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return place(n, c, row, column, g.inputs, g.height, g.width);
  }
  MILLRACE_HOST_DEVICE int64_t output_at(int64_t n, int64_t c, int64_t row, int64_t column) const {
    return place(n, c, row, column, g.outputs, g.output_height, g.output_width);
  }
  MILLRACE_HOST_DEVICE int64_t weight_at(int64_t output, int64_t input, int64_t row, int64_t column) const {
    return place(output, input, row, column, inputs_each(), g.kernel_h, g.kernel_w);
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
          .adds = call.adds,
          .channels_last = call.channels_last};
}

}  // namespace millrace::gpu
