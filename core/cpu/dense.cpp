// Dense layers, also step by step over a sequence: features of a position lie together, so all positions of all samples
// are the rows of one matrix, and the three phases are three products with the canonical [output][input] weight. Where rows are few and
// the weight lies in no cache, F and E take the time of reading it (streamed_product.h).
#include <algorithm>

#include "core/cpu/kernel.h"
#include "core/cpu/matrix_product.h"
#include "core/cpu/operations.h"
#include "core/cpu/streamed_product.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

class DenseLayer final : public CpuKernel {
 public:
  DenseLayer(const SharedEngine& engine, const KernelSpec& spec)
      : CpuKernel(engine, spec),
        rows_(spec.micro_batch * spec.output.plane()),
        inputs_(spec.inputs[0].channels),
        outputs_(spec.output.channels) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({outputs_, inputs_, 1}));
    if (spec().bias) parameters.push_back(make_parameter({outputs_, 1, 1}));
    return parameters;
  }

  std::string implementation() const override { return streams_weight() ? "streamed products, PG sgemm" : "sgemm"; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    CpuTensor& output = own(arguments.output);
    const bool adds = spec().adds_to_output;
    float* const y = output.data();
    const float* const x = own(arguments.inputs[0]).data();
    const float* const weight = own(arguments.parameters[0]).data();
    if (streams_weight())
      multiply_streamed(threads(), x, rows_, stream_of(weight), y, adds);
    else
      multiply_matrices({.data = x, .stride = inputs_}, {.data = weight, .stride = inputs_, .transposed = true}, rows_, outputs_, inputs_,
                        adds, y, outputs_);
    if (spec().bias) add_row(y, own(arguments.parameters[1]).data(), rows_, outputs_);
  }

  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    float* const input_error = own(arguments.input_errors[0]).data();
    const float* const error = own(arguments.output_error).data();
    const float* const weight = own(arguments.parameters[0]).data();
    const bool adds = arguments.adds[0] != 0;
    if (streams_weight())
      multiply_streamed_back(threads(), error, rows_, stream_of(weight), input_error, adds);
    else
      multiply_matrices({.data = error, .stride = outputs_}, {.data = weight, .stride = inputs_}, rows_, inputs_, outputs_, adds,
                        input_error, inputs_);
  }

  void run_gradient(const GradientArguments& arguments) override {
    CpuTensor& weight = own(arguments.gradients[0]);
    const float* const error = own(arguments.output_error).data();
    multiply_matrices({.data = error, .stride = outputs_, .transposed = true}, {.data = own(arguments.inputs[0]).data(), .stride = inputs_},
                      outputs_, inputs_, rows_, arguments.adds, weight.data(), inputs_);
    if (!spec().bias) return;
    float* const bias = own(arguments.gradients[1]).data();
    if (!arguments.adds) std::fill_n(bias, outputs_, 0.0f);
    for (int64_t row = 0; row < rows_; ++row) add_to(bias, error + row * outputs_, outputs_);
  }

 private:
  WeightStream stream_of(const float* weight) const { return {weight, outputs_, inputs_}; }
  bool streams_weight() const { return stream_of(nullptr).serves(rows_); }

  int64_t rows_;  // positions of all samples
  int64_t inputs_;
  int64_t outputs_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Dense&) {
  if (spec.in_parts && !spec.bias && !spec.activation) return make_step_products(engine, spec);
  if (auto half = make_half_dense(engine, spec)) return half;
  return std::make_unique<DenseLayer>(engine, spec);
}

}  // namespace millrace::cpu
