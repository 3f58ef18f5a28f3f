// Dense layers whose operands are rounded to bf16: the three products of dense.cpp by oneDNN, with sums, tensors and gradients in fp32. One
// copy of the weight in bf16, renewed after it changed, serves forward and error back-propagation.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "core/cpu/kernel.h"
#include "core/cpu/onednn.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

using Form = dnnl::memory::format_tag;
using Number = dnnl::memory::data_type;

// c[m][n] (+)= a[m][k] * b[k][n]; a factor's tag is ba where its transpose lies in memory.
struct HalfProduct {
  int64_t m, n, k;
  Form a, b;

  MemoryDesc left() const { return {{m, k}, Number::bf16, a}; }
  MemoryDesc right() const { return {{k, n}, Number::bf16, b}; }
  MemoryDesc result() const { return {{m, n}, Number::f32, Form::ab}; }
  std::optional<dnnl::matmul::primitive_desc> find(bool adds) const {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops ops;
    if (adds) ops.append_sum(1.0f);
    attr.set_post_ops(ops);
    try {
      dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(left(), right(), result()), attr, onednn_engine());
      if (std::string_view(desc.impl_info_str()).starts_with("brg")) return desc;
    } catch (const dnnl::error&) {  // not on this processor
    }
    return std::nullopt;
  }
};

struct HalfJob {
  HalfJob(const dnnl::matmul::primitive_desc& desc, ScratchPlan& plan)
      : job(dnnl::matmul(desc), {{DNNL_ARG_SRC, desc.src_desc()},
                                 {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                 {DNNL_ARG_DST, desc.dst_desc()},
                                 {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}),
        scratchpad(plan.add(desc.scratchpad_desc().get_size())) {}

  void run(const Arena& arena, const void* a, const void* b, float* c) {
    job.bind(DNNL_ARG_SRC, a);
    job.bind(DNNL_ARG_WEIGHTS, b);
    job.bind(DNNL_ARG_DST, c);
    job.bind(DNNL_ARG_SCRATCHPAD, arena.at<float>(scratchpad));
    job.run();
  }

  Job job;
  size_t scratchpad;
};

class HalfDense final : public CpuKernel {
 public:
  struct Products {
    HalfProduct forward, error, gradient;
  };
  static Products products_of(const KernelSpec& spec) {
    const int64_t rows = spec.micro_batch * spec.output.plane(), inputs = spec.inputs[0].channels, outputs = spec.output.channels;
    return {.forward = {rows, outputs, inputs, Form::ab, Form::ba},
            .error = {rows, inputs, outputs, Form::ab, Form::ab},
            .gradient = {outputs, inputs, rows, Form::ba, Form::ab}};
  }
  static bool serves(const KernelSpec& spec) {
    const auto [forward, error, gradient] = products_of(spec);
    const auto found = [](const HalfProduct& product) { return product.find(false) && product.find(true); };
    return found(forward) && found(error) && found(gradient);
  }

  HalfDense(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec),
        rows_(spec.micro_batch * spec.output.plane()),
        inputs_(spec.inputs[0].channels),
        outputs_(spec.output.channels) {
    const auto [forward, error, gradient] = products_of(spec);
    const MemoryDesc x({rows_, inputs_}, Number::f32, Form::ab), dy({rows_, outputs_}, Number::f32, Form::ab);
    const MemoryDesc half_x({rows_, inputs_}, Number::bf16, Form::ab), half_dy({rows_, outputs_}, Number::bf16, Form::ab);
    const MemoryDesc weight({outputs_, inputs_}, Number::f32, Form::ab), half_weight({outputs_, inputs_}, Number::bf16, Form::ab);
    weight_ = Buffer(half_weight.get_size());
    round_weight_ = Job(dnnl::reorder(dnnl::reorder::primitive_desc(onednn_engine(), weight, onednn_engine(), half_weight)),
                        {{DNNL_ARG_FROM, weight}, {DNNL_ARG_TO, half_weight}});
    ScratchPlan plan;
    x_ = Port(Port::Way::kIn, x, half_x, plan);
    error_ = Port(Port::Way::kIn, dy, half_dy, plan);
    forward_.emplace(*forward.find(spec.adds_to_output), plan);
    for (const bool adds : {false, true}) {
      error_back_[adds].emplace(*error.find(adds), plan);
      gradient_[adds].emplace(*gradient.find(adds), plan);
    }
    reserve(plan);
    name_ = forward.find(false)->impl_info_str();
  }

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({outputs_, inputs_, 1}));
    if (spec().bias) parameters.push_back(make_parameter({outputs_, 1, 1}));
    return parameters;
  }

  void parameters_changed(std::span<const Tensor* const> parameters) override {
    const ComputeScope scope(threads());
    round_weight_.bind(DNNL_ARG_FROM, own(parameters[0]).data());
    round_weight_.bind(DNNL_ARG_TO, weight_.data());
    round_weight_.run();
  }

  std::string implementation() const override { return name_; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    float* const y = own(arguments.output).data();
    forward_->run(engine().arena, x_.fetch(engine().arena, own(arguments.inputs[0]).data()), weight_.data(), y);
    if (spec().bias) add_row(y, own(arguments.parameters[1]).data(), rows_, outputs_);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    error_back_[arguments.adds[0] != 0]->run(engine().arena, error_.fetch(engine().arena, own(arguments.output_error).data()),
                                             weight_.data(), own(arguments.input_errors[0]).data());
  }

  void run_gradient(const GradientArguments& arguments) override {
    const float* const error = own(arguments.output_error).data();
    gradient_[arguments.adds]->run(engine().arena, error_.fetch(engine().arena, error),
                                   x_.fetch(engine().arena, own(arguments.inputs[0]).data()), own(arguments.gradients[0]).data());
    if (!spec().bias) return;
    float* const bias = own(arguments.gradients[1]).data();
    if (!arguments.adds) std::fill_n(bias, outputs_, 0.0f);
    for (int64_t row = 0; row < rows_; ++row) add_to(bias, error + row * outputs_, outputs_);
  }

 private:
  int64_t rows_;  // positions of all samples
  int64_t inputs_, outputs_;
  Buffer weight_;
  Job round_weight_;
  Port x_, error_;
  std::optional<HalfJob> forward_;
  std::optional<HalfJob> error_back_[2], gradient_[2];  // by whether they add
  std::string name_;
};

}  // namespace

std::unique_ptr<Kernel> make_half_dense(const SharedEngine& engine, const KernelSpec& spec) {
  if (!engine->halves || !HalfDense::serves(spec)) return nullptr;
  return std::make_unique<HalfDense>(engine, spec);
}

}  // namespace millrace::cpu
