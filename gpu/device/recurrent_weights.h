// A recurrent layer's parameters as its recurrence and its products take them on a GPU. Internal to gpu/device.
//
//   RecurrentWeights weights(context, "rnn1", shape, precision);       // allocates
//   weights.follow(parameters);                                        // after each update
//   const Factor w = weights.factor(parameters, shape.input_weight(d));
//
// Biases are added up where their sums are, a projection P is folded into the state's weights (U P), and factors are rounded where the
// precision is narrow. The order of gates and rows is the kernels'. The shape must outlive it.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "core/base/index.h"
#include "core/device/recurrent_shape.h"
#include "gpu/device/factors.h"
#include "gpu/device/gpu_tensor.h"

namespace millrace::gpu {

inline void narrow(Context& context, Precision precision, const float* from, const Buffer& source, const Buffer& to, int64_t elements) {
  context.run(Narrow{.from = from, .to = to.as<uint16_t>(), .bfloat = precision == Precision::kBfloat16, .elements = elements}, {&source},
              {&to});
}

// The bias of gru's U h' + b, behind which the reset comes, stands alone.
inline bool biases_apart(const RecurrentShape& shape) { return shape.cell == CellKind::kGru && shape.reset_after; }

class RecurrentWeights {
 public:
  RecurrentWeights(Context& context, std::string_view layer, const RecurrentShape& shape, Precision precision)
      : context_(context), s_(shape), precision_(precision) {
    const auto what = [&](std::string_view of) { return fmt::format("layer \"{}\": {}", layer, of); };
    for (int64_t d = 0; d < s_.directions; ++d) {
      bias_.push_back(context.allocate(to_size(sums()) * sizeof(float), what("biases")));
      if (s_.projects) folded_.push_back(context.allocate(to_size(sums() * s_.hidden * bytes_of(precision)), what("weights")));
    }
    if (!is_narrow(precision)) return;
    if (s_.projects) context.reserve(Scratch::kFirst, to_size(sums() * s_.hidden) * sizeof(float), what("weights"));
    for (const Shape& parameter : s_.parameter_shapes())
      rounded_.push_back(context.allocate(to_size(parameter.elements() * bytes_of(precision)), what("weights in sixteen bits")));
  }

  void follow(std::span<const Tensor* const> parameters) const {
    for (size_t i = 0; i < rounded_.size(); ++i) {
      const GpuTensor& weights = own(parameters[i]);
      narrow(context_, precision_, weights.data(), weights.buffer(), rounded_[i], weights.elements());
    }
    for (int64_t d = 0; d < s_.directions; ++d) {
      const Buffer& sum = bias(d);
      const GpuTensor& of_input = own(parameters[s_.input_bias(d)]);
      const GpuTensor& of_hidden = own(parameters[s_.hidden_bias(d)]);
      const int64_t together = biases_apart(s_) ? 2 * s_.hidden : sums();
      context_.run(straight_copy(of_input.data(), sum.as<float>(), sums(), false), {&of_input.buffer()}, {&sum});
      context_.run(straight_copy(of_hidden.data(), sum.as<float>(), together, true), {&of_hidden.buffer()}, {&sum});
      if (s_.projects) fold(own(parameters[s_.hidden_weight(d)]), own(parameters[s_.projection(d)]), folded(d));
    }
  }

  // Of one direction.
  const Buffer& bias(int64_t direction) const { return item(bias_, direction); }
  const Buffer& folded(int64_t direction) const { return item(folded_, direction); }
  // A matrix of the layer as a factor.
  Factor factor(std::span<const Tensor* const> parameters, size_t which) const {
    if (is_narrow(precision_)) return {rounded_[which].as<void>(), &rounded_[which]};
    const GpuTensor& tensor = own(parameters[which]);
    return {tensor.data(), &tensor.buffer()};
  }

 private:
  int64_t sums() const { return s_.gates * s_.hidden; }
  // Rounded once.
  void fold(const GpuTensor& hidden, const GpuTensor& projection, const Buffer& folded) const {
    const Buffer& product = is_narrow(precision_) ? context_.scratch(Scratch::kFirst) : folded;
    context_.compute({&hidden.buffer(), &projection.buffer()}, {&product}, [&] {
      context_.engine().gemm(
          {.m = sums(), .n = s_.hidden, .k = s_.features, .a = hidden.data(), .b = projection.data(), .result = product.as<float>()});
    });
    if (is_narrow(precision_)) narrow(context_, precision_, product.as<float>(), product, folded, sums() * s_.hidden);
  }

  Context& context_;
  const RecurrentShape& s_;
  Precision precision_;
  std::vector<Buffer> bias_, folded_;  // by direction
  std::vector<Buffer> rounded_;        // parameters in a narrow precision; none in fp32
};

}  // namespace millrace::gpu
