// Convolutions by oneDNN: direct or Winograd as the kernel table says, whichever layout the tensors come in. Where oneDNN has no Winograd
// for the instruction set, ours (winograd.h) takes the pass.
//
// Each pass is a primitive of its own. The parameter lies as the parameter gradient writes it, so that gradients, slots
// and weights are updated element by element; where FP or EB want another form it is packed once per parameter change.
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/cpu/convolution_forms.h"
#include "core/cpu/kernel.h"
#include "core/cpu/onednn.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"
#include "core/cpu/winograd.h"

namespace millrace::cpu {

namespace {

using dnnl::algorithm;
using dnnl::prop_kind;

// Forms of input and output to try, best first.
std::vector<std::pair<MemoryDesc, MemoryDesc>> candidate_forms(const Geometry& g) {
  return {{g.source_desc, g.target_desc},
          {desc_of(g.source, Tag::any), desc_of(g.target, Tag::any)},
          {desc_of(g.source, Tag::nchw), desc_of(g.target, Tag::nchw)}};
}

// The best primitive that any of the candidates gives; `make` returns a primitive descriptor or throws.
template <typename Desc, typename Make>
std::optional<Desc> best_of(const Geometry& geometry, algorithm wanted, const Make& make) {
  std::optional<Desc> best;
  int best_rank = 3;
  for (const algorithm a : {wanted, algorithm::convolution_direct}) {
    for (const auto& [source, target] : candidate_forms(geometry)) {
      try {
        Desc desc = make(a, source, target);
        const int rank = rank_of(desc.impl_info_str());
        if (rank < best_rank) best = std::move(desc), best_rank = rank;
      } catch (const dnnl::error&) {  // this combination does not exist: try the next
      }
      if (best_rank == 0) return best;
    }
  }
  return best;
}

// A pass by our own Winograd, and the weight in its form.
class OwnPass {
 public:
  OwnPass(const WinogradShape& shape, bool back, const MemoryDesc& parameter, const Geometry& geometry)
      : winograd_(shape, back), weight_(parameter, geometry.winograd_weight(back)) {}

  size_t scratch_bytes() const { return winograd_.scratch_bytes(); }
  void invalidate() {
    weight_.invalidate();
    stale_ = true;
  }
  void run(const float* parameter, const Winograd::Arguments& arguments, float* scratch) {
    if (std::exchange(stale_, false)) winograd_.change_weight(weight_.get(parameter));
    winograd_.run(arguments, scratch);
  }

 private:
  Winograd winograd_;
  PackedWeight weight_;
  bool stale_ = true;
};
constexpr const char* kOwnName = "own winograd F(4x4, 3x3)";

algorithm onednn_algorithm(ConvAlgorithm choice) {
  return choice == ConvAlgorithm::kWinograd ? algorithm::convolution_winograd : algorithm::convolution_direct;
}

class Convolution final : public CpuKernel {
 public:
  Convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& conv)
      : CpuKernel(engine, spec),
        geometry_(spec, conv, engine->vector_length),
        own_serves_(winograd_serves(*engine, conv, spec.inputs[0], spec.output)) {
    const auto choice = [&](Phase phase) {
      return onednn_algorithm(engine->table.choice({conv, spec.inputs[0], phase, spec.micro_batch, engine->isa}));
    };
    const dnnl::convolution_forward::primitive_desc hint = hint_desc();
    if (spec.trained) make_gradient_pass(choice(Phase::kParameterGradient), hint);
    make_forward_pass(choice(Phase::kForward));
    if (spec.input_error_needed) make_error_pass(choice(Phase::kErrorBack), hint);
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
    forward_weight_.invalidate();
    error_weight_.invalidate();
    if (own_forward_) own_forward_->invalidate();
    if (own_error_) own_error_->invalidate();
  }

  std::string implementation() const override { return fmt::format("FP {}, EB {}, PG {}", forward_.name, error_.name, gradient_.name); }

 protected:
  bool fuses_activation() const override { return activation_fused_; }

  void run_forward(const ForwardArguments& arguments) override {
    CpuTensor& output = own(arguments.output);
    if (own_forward_) {
      const std::optional<double> slope = spec().activation ? spec().activation->slope_below_zero() : std::nullopt;
      own_forward_->run(own(arguments.parameters[0]).data(),
                        {.x = own(arguments.inputs[0]).data(),
                         .y = output.data(),
                         .bias = spec().bias ? own(arguments.parameters[1]).data() : nullptr,
                         .slope = slope ? std::optional(static_cast<float>(*slope)) : std::nullopt,
                         .adds = spec().adds_to_output},
                        scratch<float>(0));
      return;
    }
    forward_.job.bind(DNNL_ARG_SRC, forward_.source.fetch(engine().arena, own(arguments.inputs[0]).data()));
    forward_.job.bind(DNNL_ARG_WEIGHTS, forward_weight_.get(own(arguments.parameters[0]).data()));
    if (spec().bias) forward_.job.bind(DNNL_ARG_BIAS, own(arguments.parameters[1]).data());
    write_output(forward_, DNNL_ARG_DST, output, spec().adds_to_output, sum_fused_);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    MILLRACE_CHECK(spec().input_error_needed, "{}: the error of its input is asked for, but the kernel was made without", spec().layer);
    if (own_error_) {
      own_error_->run(own(arguments.parameters[0]).data(),
                      {.x = own(arguments.output_error).data(), .y = own(arguments.input_errors[0]).data(), .adds = arguments.adds[0] != 0},
                      scratch<float>(0));
      return;
    }
    error_.job.bind(DNNL_ARG_DIFF_DST, error_.source.fetch(engine().arena, own(arguments.output_error).data()));
    error_.job.bind(DNNL_ARG_WEIGHTS, error_weight_.get(own(arguments.parameters[0]).data()));
    write_output(error_, DNNL_ARG_DIFF_SRC, own(arguments.input_errors[0]), arguments.adds[0] != 0, false);
  }

  void run_gradient(const GradientArguments& arguments) override {
    MILLRACE_CHECK(spec().trained, "{}: gradients are asked for, but the kernel was made frozen", spec().layer);
    if (own_gradient_) {
      const float* const error = own(arguments.output_error).data();
      own_gradient_->run(own(arguments.inputs[0]).data(), error, own(arguments.gradients[0]).data(), arguments.adds, scratch<float>(0));
      if (spec().bias) own_gradient_->run_bias(error, own(arguments.gradients[1]).data(), arguments.adds);
      return;
    }
    gradient_.job.bind(DNNL_ARG_SRC, gradient_.source.fetch(engine().arena, own(arguments.inputs[0]).data()));
    gradient_.job.bind(DNNL_ARG_DIFF_DST, gradient_.second_source.fetch(engine().arena, own(arguments.output_error).data()));
    CpuTensor& weight = own(arguments.gradients[0]);
    CpuTensor* const bias = spec().bias ? &own(arguments.gradients[1]) : nullptr;
    gradient_.job.bind(DNNL_ARG_DIFF_WEIGHTS, arguments.adds ? scratch<float>(weight_scratch_) : weight.data());
    if (bias != nullptr) gradient_.job.bind(DNNL_ARG_DIFF_BIAS, arguments.adds ? scratch<float>(bias_scratch_) : bias->data());
    run(gradient_);
    if (!arguments.adds) return;
    add_scratch(weight_scratch_, weight);
    if (bias != nullptr) add_scratch(bias_scratch_, *bias);
  }

 private:
  struct Pass {
    Job job;
    Port source, second_source, target;
    size_t scratchpad = 0;
    size_t sum = 0;  // where a result is kept before it is added
    std::string name = "none";
  };

  void run(Pass& pass) {
    pass.job.bind(DNNL_ARG_SCRATCHPAD, scratch<float>(pass.scratchpad));
    pass.job.run();
  }

  void add_scratch(size_t offset, CpuTensor& to) {
    const float* from = scratch<float>(offset);
    float* values = to.data();
    parallel_chunks(threads(), to.stored(), [&](int64_t begin, int64_t size) { add_to(values + begin, from + begin, size); });
  }

  // Runs the pass into the tensor: overwriting or adding, in place or by way of scratch.
  void write_output(Pass& pass, int argument, CpuTensor& tensor, bool adds, bool sum_fused) {
    const bool in_place = !adds || sum_fused;
    if (pass.target.direct()) {
      pass.job.bind(argument, !in_place ? scratch<float>(pass.sum) : tensor.data());
      run(pass);
    } else {
      pass.job.bind(argument, pass.target.landing(engine().arena));
      run(pass);
      pass.target.store(engine().arena, in_place ? tensor.data() : scratch<float>(pass.sum));
    }
    if (!in_place) add_scratch(pass.sum, tensor);
  }

  dnnl::convolution_forward::desc forward_desc(prop_kind kind, algorithm a, const MemoryDesc& source, const MemoryDesc& weight,
                                               const MemoryDesc& target) const {
    const Geometry& g = geometry_;
    if (!spec().bias) return {kind, a, source, weight, target, g.strides, g.dilations, g.padding, g.padding};
    return {kind, a, source, weight, g.bias(), target, g.strides, g.dilations, g.padding, g.padding};
  }

  // Backward primitives want to see a forward one of the same shape.
  dnnl::convolution_forward::primitive_desc hint_desc() const {
    return {forward_desc(prop_kind::forward_training, algorithm::convolution_direct, desc_of(geometry_.source, Tag::any),
                         geometry_.any_weight(), desc_of(geometry_.target, Tag::any)),
            onednn_engine()};
  }

  [[noreturn]] void refuse(std::string_view pass) const {
    fail(ErrorCode::kUnavailable, "layer \"{}\": oneDNN has no {} for a convolution from {} to {}", spec().layer, pass,
         text_of(spec().inputs[0]), text_of(spec().output));
  }

  // Whether ours takes a pass for which oneDNN has found this.
  template <typename Desc>
  bool own_takes(algorithm wanted, const std::optional<Desc>& found) const {
    return wanted == algorithm::convolution_winograd && own_serves_ &&
           (!found || std::string_view(found->impl_info_str()).find("wino") == std::string_view::npos);
  }
  WinogradShape winograd_shape() const {
    const Geometry& g = geometry_;
    return {.samples = samples(),
            .inputs = g.source[1],
            .outputs = g.target[1],
            .height = g.source[2],
            .width = g.source[3],
            .out_height = g.target[2],
            .out_width = g.target[3],
            .pad_h = g.padding[0],
            .pad_w = g.padding[1],
            .lanes = engine().vector_length,
            .threads = threads()};
  }
  void reserve_own(size_t bytes) {
    ScratchPlan plan;
    plan.add(bytes);
    reserve(plan);
  }

  void make_gradient_pass(algorithm wanted, const dnnl::convolution_forward::primitive_desc& hint) {
    using Desc = dnnl::convolution_backward_weights;
    const Geometry& g = geometry_;
    const auto desc = best_of<Desc::primitive_desc>(g, wanted, [&](algorithm a, const MemoryDesc& source, const MemoryDesc& target) {
      const Desc::desc d = spec().bias
                               ? Desc::desc(a, source, g.any_weight(), g.bias(), target, g.strides, g.dilations, g.padding, g.padding)
                               : Desc::desc(a, source, g.any_weight(), target, g.strides, g.dilations, g.padding, g.padding);
      return Desc::primitive_desc(d, attributes(false, std::nullopt), onednn_engine(), hint);
    });
    if (own_takes(wanted, desc)) {
      own_gradient_.emplace(winograd_shape());
      parameter_desc_ = g.winograd_weight(false);
      gradient_.name = kOwnName;
      return reserve_own(own_gradient_->scratch_bytes());
    }
    if (!desc) refuse("parameter gradient");
    parameter_desc_ = desc->diff_weights_desc();
    ScratchPlan plan;
    gradient_.source = Port(Port::Way::kIn, g.source_desc, desc->src_desc(), plan);
    gradient_.second_source = Port(Port::Way::kIn, g.target_desc, desc->diff_dst_desc(), plan);
    gradient_.scratchpad = plan.add(desc->scratchpad_desc().get_size());
    weight_scratch_ = plan.add(parameter_desc_.get_size());
    bias_scratch_ = plan.add(g.bias().get_size());
    reserve(plan);
    std::vector<std::pair<int, MemoryDesc>> arguments{{DNNL_ARG_SRC, desc->src_desc()},
                                                      {DNNL_ARG_DIFF_DST, desc->diff_dst_desc()},
                                                      {DNNL_ARG_DIFF_WEIGHTS, parameter_desc_},
                                                      {DNNL_ARG_SCRATCHPAD, desc->scratchpad_desc()}};
    if (spec().bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, g.bias());
    gradient_.job = Job(Desc(*desc), arguments);
    gradient_.name = desc->impl_info_str();
  }

  void make_forward_pass(algorithm wanted) {
    using Desc = dnnl::convolution_forward;
    const Geometry& g = geometry_;
    const auto find = [&](bool fused, const MemoryDesc& weight) {
      return best_of<Desc::primitive_desc>(g, wanted, [&](algorithm a, const MemoryDesc& source, const MemoryDesc& target) {
        return Desc::primitive_desc(forward_desc(prop_kind::forward_training, a, source, weight, target),
                                    attributes(fused && spec().adds_to_output, fused ? spec().activation : std::nullopt), onednn_engine());
      });
    };
    // Fusion and the parameter's own form are worth having only where they do not cost the implementation.
    const auto free = find(false, g.any_weight());
    if (own_takes(wanted, free)) {
      if (!spec().trained) parameter_desc_ = g.winograd_weight(false);
      own_forward_.emplace(winograd_shape(), false, parameter_desc_, g);
      activation_fused_ = spec().activation && onednn_activation(*spec().activation);
      forward_.name = kOwnName;
      return reserve_own(own_forward_->scratch_bytes());
    }
    if (!free) refuse("forward pass");
    auto best = free;
    bool fused = false;
    const auto improve = [&](bool with_fusion, const MemoryDesc& weight) {
      auto desc = find(with_fusion, weight);
      if (!desc || std::string_view(desc->impl_info_str()) != free->impl_info_str()) return false;
      best = std::move(desc), fused = with_fusion;
      return true;
    };
    const bool has_parameter_form = spec().trained;
    const bool fusable = spec().adds_to_output || spec().activation;
    if (!(fusable && has_parameter_form && improve(true, parameter_desc_)) && !(has_parameter_form && improve(false, parameter_desc_)) &&
        fusable)
      improve(true, g.any_weight());
    if (fusable && !fused) improve(true, best->weights_desc());

    if (!has_parameter_form) parameter_desc_ = best->weights_desc();
    forward_weight_ = PackedWeight(parameter_desc_, best->weights_desc());
    ScratchPlan plan;
    forward_.source = Port(Port::Way::kIn, g.source_desc, best->src_desc(), plan);
    forward_.target = Port(Port::Way::kOut, g.target_desc, best->dst_desc(), plan);
    // A sum behind a reorder has to be taken where the tensor lies.
    sum_fused_ = fused && forward_.target.direct();
    activation_fused_ =
        fused && spec().activation && onednn_activation(*spec().activation) && (forward_.target.direct() || !spec().adds_to_output);
    if (fused && !forward_.target.direct() && spec().adds_to_output) {
      best = find(false, best->weights_desc());
      MILLRACE_CHECK(best.has_value(), "{}: a convolution without post-ops is gone", spec().layer);
    }
    forward_.scratchpad = plan.add(best->scratchpad_desc().get_size());
    if (spec().adds_to_output && !sum_fused_) forward_.sum = plan.add(g.target_desc.get_size());
    reserve(plan);
    std::vector<std::pair<int, MemoryDesc>> arguments{{DNNL_ARG_SRC, best->src_desc()},
                                                      {DNNL_ARG_WEIGHTS, best->weights_desc()},
                                                      {DNNL_ARG_DST, best->dst_desc()},
                                                      {DNNL_ARG_SCRATCHPAD, best->scratchpad_desc()}};
    if (spec().bias) arguments.emplace_back(DNNL_ARG_BIAS, g.bias());
    forward_.job = Job(Desc(*best), arguments);
    forward_.name = best->impl_info_str();
  }

  void make_error_pass(algorithm wanted, const dnnl::convolution_forward::primitive_desc& hint) {
    using Desc = dnnl::convolution_backward_data;
    const Geometry& g = geometry_;
    const auto find = [&](const MemoryDesc& weight) {
      return best_of<Desc::primitive_desc>(g, wanted, [&](algorithm a, const MemoryDesc& source, const MemoryDesc& target) {
        return Desc::primitive_desc(Desc::desc(a, source, weight, target, g.strides, g.dilations, g.padding, g.padding),
                                    attributes(false, std::nullopt), onednn_engine(), hint);
      });
    };
    auto best = find(g.any_weight());
    if (own_takes(wanted, best)) {
      own_error_.emplace(error_back_of(winograd_shape()), true, parameter_desc_, g);
      error_.name = kOwnName;
      return reserve_own(own_error_->scratch_bytes());
    }
    if (!best) refuse("error back-propagation");
    if (auto own_form = find(parameter_desc_); own_form && std::string_view(own_form->impl_info_str()) == best->impl_info_str())
      best = std::move(own_form);
    error_weight_ = PackedWeight(parameter_desc_, best->weights_desc());
    ScratchPlan plan;
    error_.source = Port(Port::Way::kIn, g.target_desc, best->diff_dst_desc(), plan);
    error_.target = Port(Port::Way::kOut, g.source_desc, best->diff_src_desc(), plan);
    error_.scratchpad = plan.add(best->scratchpad_desc().get_size());
    error_.sum = plan.add(g.source_desc.get_size());
    reserve(plan);
    error_.job = Job(Desc(*best), {{DNNL_ARG_DIFF_DST, best->diff_dst_desc()},
                                   {DNNL_ARG_WEIGHTS, best->weights_desc()},
                                   {DNNL_ARG_DIFF_SRC, best->diff_src_desc()},
                                   {DNNL_ARG_SCRATCHPAD, best->scratchpad_desc()}});
    error_.name = best->impl_info_str();
  }

  Geometry geometry_;
  bool own_serves_;
  MemoryDesc parameter_desc_;
  std::optional<OwnPass> own_forward_, own_error_;
  std::optional<WinogradGradient> own_gradient_;
  Pass forward_, error_, gradient_;
  PackedWeight forward_weight_, error_weight_;
  size_t weight_scratch_ = 0;
  size_t bias_scratch_ = 0;
  bool sum_fused_ = false;
  bool activation_fused_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation) {
  if (auto half = make_half_convolution(engine, spec, operation)) return half;
  // The taps share one form of the weight among all passes, so the choice is the layer's.
  const Phase deciding = spec.trained ? Phase::kParameterGradient : Phase::kForward;
  if (engine->table.choice({operation, spec.inputs[0], deciding, spec.micro_batch, engine->isa}) == ConvAlgorithm::kTaps)
    for (const auto make : {make_taps_convolution, make_small_map_convolution})
      if (auto taps = make(engine, spec, operation)) return taps;
  return std::make_unique<Convolution>(engine, spec, operation);
}

}  // namespace millrace::cpu
