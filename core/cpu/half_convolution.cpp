// Convolutions whose operands are rounded to bf16, by oneDNN; sums, tensors, weights and gradients are fp32.
//
// They serve processors without AMX (with it: tile_convolution.cpp) and maps in blocks of sixteen channels on both sides, where oneDNN 2.6
// has one implementation for each pass on every processor with AVX-512 BF16. That of the parameter gradient reads parts of its scratch
// memory that it has not written (narrow maps with a stride), and is wrong by a third and more for channels that fill no block of a map of
// features: so its scratch is cleared before each call, and such channels stay fp32. Everything else is right to 4e-7 of its rounded
// operands (tests/core/cpu/half_test.cpp).
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/cpu/convolution_forms.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/kernel.h"
#include "core/cpu/onednn.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

using dnnl::algorithm;

constexpr int64_t kBlock = 16;

bool has_whole_blocks(const Shape& shape, int64_t groups) {
  return channel_block(shape, kBlock) == kBlock && shape.width > 1 && shape.plane() > 4 && shape.channels / groups % kBlock == 0;
}

// The primitives of all passes that the layer has.
struct Passes {
  std::optional<dnnl::convolution_forward::primitive_desc> forward;
  std::optional<dnnl::convolution_backward_data::primitive_desc> error;
  std::optional<dnnl::convolution_backward_weights::primitive_desc> gradient;

  bool are_known() const {
    const auto known = [](const auto& pass) { return !pass || std::string_view(pass->impl_info_str()).starts_with("jit_bf16"); };
    return known(forward) && known(error) && known(gradient);
  }
};

MemoryDesc half(const Dims& dims, Tag tag) { return MemoryDesc(dims, dnnl::memory::data_type::bf16, tag); }

std::optional<Passes> find_passes(const KernelSpec& spec, const Geometry& g) {
  const MemoryDesc source = half(g.source, Tag::nChw16c), target = half(g.target, Tag::nChw16c), weight = half(g.weight, Tag::any);
  const auto direct = algorithm::convolution_direct;
  const auto training = dnnl::prop_kind::forward_training;
  const auto describe = [&](bool bias) -> dnnl::convolution_forward::desc {
    if (!bias) return {training, direct, source, weight, g.target_desc, g.strides, g.dilations, g.padding, g.padding};
    return {training, direct, source, weight, g.bias(), g.target_desc, g.strides, g.dilations, g.padding, g.padding};
  };
  Passes passes;
  try {
    passes.forward.emplace(describe(spec.bias), attributes(spec.adds_to_output, spec.activation), onednn_engine());
    const dnnl::convolution_forward::primitive_desc hint(describe(false), onednn_engine());
    if (spec.input_error_needed)
      passes.error.emplace(
          dnnl::convolution_backward_data::desc(direct, g.source_desc, weight, target, g.strides, g.dilations, g.padding, g.padding),
          attributes(false, std::nullopt), onednn_engine(), hint);
    if (spec.trained)
      passes.gradient.emplace(
          dnnl::convolution_backward_weights::desc(direct, source, g.any_weight(), target, g.strides, g.dilations, g.padding, g.padding),
          attributes(false, std::nullopt), onednn_engine(), hint);
  } catch (const dnnl::error&) {  // not on this processor
    return std::nullopt;
  }
  return passes.are_known() ? std::optional(std::move(passes)) : std::nullopt;
}

class HalfConvolution final : public CpuKernel {
 public:
  HalfConvolution(const SharedEngine& engine, const KernelSpec& spec, const Geometry& geometry, const Passes& passes)
      : CpuKernel(engine, spec), geometry_(geometry) {
    parameter_desc_ = passes.gradient ? passes.gradient->diff_weights_desc() : geometry_.canonical_weight();
    make_forward_pass(*passes.forward);
    if (passes.error) make_error_pass(*passes.error);
    if (passes.gradient) make_gradient_pass(*passes.gradient);
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    const int64_t taps = geometry_.weight[geometry_.grouped ? 3 : 2] * geometry_.weight.back();
    const int64_t inputs = geometry_.weight[geometry_.grouped ? 2 : 1];
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({spec().output.channels, inputs, taps},
                                        std::make_shared<WeightPacking>(geometry_.canonical_weight(), parameter_desc_)));
    if (spec().bias) parameters.push_back(make_parameter({spec().output.channels, 1, 1}));
    return parameters;
  }

  void parameters_changed(std::span<const Tensor* const>) override {
    forward_.weight.invalidate();
    error_.weight.invalidate();
  }

  std::string implementation() const override { return fmt::format("FP {}, EB {}, PG {}", forward_.name, error_.name, gradient_.name); }

 protected:
  bool fuses_activation() const override { return spec().activation && onednn_activation(*spec().activation); }

  void run_forward(const ForwardArguments& arguments) override {
    forward_.job.bind(DNNL_ARG_SRC, forward_.source.fetch(engine().arena, own(arguments.inputs[0]).data()));
    forward_.job.bind(DNNL_ARG_WEIGHTS, forward_.weight.get(own(arguments.parameters[0]).data()));
    if (spec().bias) forward_.job.bind(DNNL_ARG_BIAS, own(arguments.parameters[1]).data());
    forward_.job.bind(DNNL_ARG_DST, own(arguments.output).data());
    forward_.job.bind(DNNL_ARG_SCRATCHPAD, scratch<float>(forward_.scratchpad));
    forward_.job.run();
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    MILLRACE_CHECK(spec().input_error_needed, "{}: the error of its input is asked for, but the kernel was made without", spec().layer);
    CpuTensor& input_error = own(arguments.input_errors[0]);
    const bool adds = arguments.adds[0] != 0;
    error_.job.bind(DNNL_ARG_DIFF_DST, error_.source.fetch(engine().arena, own(arguments.output_error).data()));
    error_.job.bind(DNNL_ARG_WEIGHTS, error_.weight.get(own(arguments.parameters[0]).data()));
    error_.job.bind(DNNL_ARG_DIFF_SRC, adds ? scratch<float>(error_.sum) : input_error.data());
    error_.job.bind(DNNL_ARG_SCRATCHPAD, scratch<float>(error_.scratchpad));
    error_.job.run();
    if (adds) add_scratch(error_.sum, input_error);
  }

  void run_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(spec().trained, "{}: gradients are asked for, but the kernel was made frozen", spec().layer);
    CpuTensor& weight = own(arguments.gradients[0]);
    const float* const error = own(arguments.output_error).data();
    gradient_.job.bind(DNNL_ARG_SRC, gradient_.source.fetch(engine().arena, own(arguments.inputs[0]).data()));
    gradient_.job.bind(DNNL_ARG_DIFF_DST, gradient_.second_source.fetch(engine().arena, error));
    gradient_.job.bind(DNNL_ARG_DIFF_WEIGHTS, arguments.adds ? scratch<float>(gradient_.sum) : weight.data());
    std::memset(scratch<float>(gradient_.scratchpad), 0, gradient_.scratchpad_bytes);
    gradient_.job.bind(DNNL_ARG_SCRATCHPAD, scratch<float>(gradient_.scratchpad));
    gradient_.job.run();
    if (arguments.adds) add_scratch(gradient_.sum, weight);
    if (spec().bias) sum_errors(error, own(arguments.gradients[1]).data(), arguments.adds);
  }

 private:
  struct Pass {
    Job job;
    Port source, second_source;
    PackedWeight weight;
    size_t scratchpad = 0, scratchpad_bytes = 0;
    size_t sum = 0;  // where a result is kept before it is added
    std::string name = "none";
  };

  void add_scratch(size_t offset, CpuTensor& to) {
    const float* const from = scratch<float>(offset);
    float* const values = to.data();
    parallel_chunks(threads(), to.stored(), [&](int64_t begin, int64_t size) { add_to(values + begin, from + begin, size); });
  }

  // The bias is added in fp32, and so is its gradient.
  void sum_errors(const float* error, float* gradient, bool adds) const {
    const Layout layout = layout_of(spec().output);
    parallel_for(threads(), layout.blocks(), [&](int64_t block) {
      float* const sums = gradient + block * kBlock;
      if (!adds) std::fill_n(sums, kBlock, 0.0f);
      for (int64_t sample = 0; sample < layout.samples; ++sample)
        add_rows(sums, error + layout.offset(sample, block * kBlock), layout.plane, kBlock, kBlock);
    });
  }

  void make_forward_pass(const dnnl::convolution_forward::primitive_desc& desc) {
    ScratchPlan plan;
    forward_.source = Port(Port::Way::kIn, geometry_.source_desc, desc.src_desc(), plan);
    forward_.weight = PackedWeight(parameter_desc_, desc.weights_desc());
    forward_.scratchpad = plan.add(desc.scratchpad_desc().get_size());
    reserve(plan);
    std::vector<std::pair<int, MemoryDesc>> arguments{{DNNL_ARG_SRC, desc.src_desc()},
                                                      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                      {DNNL_ARG_DST, desc.dst_desc()},
                                                      {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}};
    if (spec().bias) arguments.emplace_back(DNNL_ARG_BIAS, geometry_.bias());
    forward_.job = Job(dnnl::convolution_forward(desc), arguments);
    forward_.name = desc.impl_info_str();
  }

  void make_error_pass(const dnnl::convolution_backward_data::primitive_desc& desc) {
    ScratchPlan plan;
    error_.source = Port(Port::Way::kIn, geometry_.target_desc, desc.diff_dst_desc(), plan);
    error_.weight = PackedWeight(parameter_desc_, desc.weights_desc());
    error_.scratchpad = plan.add(desc.scratchpad_desc().get_size());
    error_.sum = plan.add(geometry_.source_desc.get_size());
    reserve(plan);
    error_.job = Job(dnnl::convolution_backward_data(desc), {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                                             {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                                             {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                                                             {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
    error_.name = desc.impl_info_str();
  }

  void make_gradient_pass(const dnnl::convolution_backward_weights::primitive_desc& desc) {
    ScratchPlan plan;
    gradient_.source = Port(Port::Way::kIn, geometry_.source_desc, desc.src_desc(), plan);
    gradient_.second_source = Port(Port::Way::kIn, geometry_.target_desc, desc.diff_dst_desc(), plan);
    gradient_.scratchpad_bytes = desc.scratchpad_desc().get_size();
    gradient_.scratchpad = plan.add(gradient_.scratchpad_bytes);
    gradient_.sum = plan.add(parameter_desc_.get_size());
    reserve(plan);
    gradient_.job = Job(dnnl::convolution_backward_weights(desc), {{DNNL_ARG_SRC, desc.src_desc()},
                                                                   {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                                                                   {DNNL_ARG_DIFF_WEIGHTS, parameter_desc_},
                                                                   {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
    gradient_.name = desc.impl_info_str();
  }

  Geometry geometry_;
  MemoryDesc parameter_desc_;
  Pass forward_, error_, gradient_;
};

}  // namespace

std::unique_ptr<Kernel> make_half_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation) {
  if (!engine->halves || engine->vector_length != kBlock) return nullptr;
  // Where there are tiles, bf16 is not faster without them than fp32.
  if (has_tiles()) return make_tile_convolution(engine, spec, operation);
  if (!has_whole_blocks(spec.inputs[0], operation.groups) || !has_whole_blocks(spec.output, operation.groups)) return nullptr;
  const Geometry geometry(spec, operation, kBlock);
  const auto passes = find_passes(spec, geometry);
  return passes ? std::make_unique<HalfConvolution>(engine, spec, geometry, *passes) : nullptr;
}

}  // namespace millrace::cpu
