// A convolution in oneDNN's words: its geometry, the forms of its weight, what is fused into it. Internal to core/cpu; included by source
// files only.
//
//   const Geometry g(spec, conv, engine->vector_length);
//   PackedWeight weight(parameter_desc, pd.weights_desc());   // weight.invalidate() when the parameter has changed
//   job.bind(DNNL_ARG_WEIGHTS, weight.get(parameter));
//
// Copies of weights belong to their PackedWeight; a call to get() after a change renews them and allocates nothing.
#pragma once

#include <optional>
#include <utility>

#include "core/cpu/kernel.h"
#include "core/cpu/onednn.h"

namespace millrace::cpu {

using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;

inline MemoryDesc desc_of(const Dims& dims, Tag tag) { return MemoryDesc(dims, dnnl::memory::data_type::f32, tag); }

// The convolution in oneDNN's words.
struct Geometry {
  Geometry(const KernelSpec& spec, const Conv2d& conv, int64_t vector_length)
      : strides{conv.stride_h, conv.stride_w},
        dilations{conv.dilation_h - 1, conv.dilation_w - 1},
        padding{conv.pad_h, conv.pad_w},
        source{spec.micro_batch, spec.inputs[0].channels, spec.inputs[0].height, spec.inputs[0].width},
        target{spec.micro_batch, spec.output.channels, spec.output.height, spec.output.width},
        weight{spec.output.channels, spec.inputs[0].channels / conv.groups, conv.kernel_h, conv.kernel_w},
        grouped(conv.groups > 1),
        source_desc(activation_desc(source, spec.inputs[0], vector_length)),
        target_desc(activation_desc(target, spec.output, vector_length)) {
    if (grouped) weight = {conv.groups, weight[0] / conv.groups, weight[1], weight[2], weight[3]};
  }

  MemoryDesc any_weight() const { return desc_of(weight, Tag::any); }
  MemoryDesc canonical_weight() const { return desc_of(weight, grouped ? Tag::goihw : Tag::oihw); }
  MemoryDesc bias() const { return desc_of({target[1]}, Tag::x); }
  // [channel read][tap][channel made], of FP and of EB.
  MemoryDesc winograd_weight(bool back) const { return desc_of(weight, back ? Tag::ohwi : Tag::ihwo); }

  Dims strides, dilations, padding, source, target, weight;
  bool grouped;
  MemoryDesc source_desc, target_desc;  // as the tensors lie

 private:
  static MemoryDesc activation_desc(const Dims& dims, const Shape& shape, int64_t vector_length) {
    const int64_t block = channel_block(shape, vector_length);
    // One position with whole blocks of channels is blocked too, and oneDNN is at home there.
    const bool blocked = block == vector_length || (shape.plane() == 1 && shape.channels % vector_length == 0);
    if (blocked) return desc_of(dims, vector_length == 16 ? Tag::nChw16c : Tag::nChw8c);
    return desc_of(dims, block == 1 ? Tag::nchw : Tag::nhwc);
  }
};

class WeightPacking final : public Packing {
 public:
  WeightPacking(MemoryDesc canonical, MemoryDesc stored) : canonical_(std::move(canonical)), stored_(std::move(stored)) {}

  int64_t stored() const override { return static_cast<int64_t>(stored_.get_size() / sizeof(float)); }
  void pack(const float* canonical, float* stored) const override { reorder_now(canonical_, canonical, stored_, stored); }
  void unpack(const float* stored, float* canonical) const override { reorder_now(stored_, stored, canonical_, canonical); }

 private:
  MemoryDesc canonical_, stored_;
};

// Weights in the form one pass wants: the parameter itself, or a copy that is renewed after the parameter changed.
class PackedWeight {
 public:
  PackedWeight() = default;
  PackedWeight(const MemoryDesc& parameter, const MemoryDesc& wanted) : direct_(parameter == wanted) {
    if (direct_) return;
    copy_ = Buffer(wanted.get_size());
    const dnnl::reorder::primitive_desc desc(onednn_engine(), parameter, onednn_engine(), wanted);
    reorder_ = Job(dnnl::reorder(desc), {{DNNL_ARG_FROM, parameter}, {DNNL_ARG_TO, wanted}});
  }

  void invalidate() { stale_ = true; }
  // In what data type `wanted` has.
  const float* get(const float* parameter) {
    if (direct_) return parameter;
    if (std::exchange(stale_, false)) {
      reorder_.bind(DNNL_ARG_FROM, parameter);
      reorder_.bind(DNNL_ARG_TO, copy_.data());
      reorder_.run();
    }
    return reinterpret_cast<const float*>(copy_.data());
  }

 private:
  bool direct_ = true;
  bool stale_ = true;
  Buffer copy_;
  Job reorder_;
};

inline std::optional<std::pair<dnnl::algorithm, float>> onednn_activation(const Activation& activation) {
  // The exponential behind the curved ones is oneDNN's own; ours keeps padding and evaluation in one place.
  const std::optional<double> slope = activation.slope_below_zero();
  if (!slope) return std::nullopt;
  return {{dnnl::algorithm::eltwise_relu, static_cast<float>(*slope)}};
}

inline dnnl::primitive_attr attributes(bool sum, const std::optional<Activation>& activation) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  if (sum) ops.append_sum(1.0f);
  if (activation)
    if (const auto fused = onednn_activation(*activation)) ops.append_eltwise(1.0f, fused->first, fused->second, 0.0f);
  attr.set_post_ops(ops);
  return attr;
}

}  // namespace millrace::cpu
