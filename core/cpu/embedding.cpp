// Embedding: rows of the weight, copied forward and added up as gradients, step after step of sample after sample.
#include <algorithm>

#include "core/cpu/kernel.h"
#include "core/cpu/operations.h"
#include "core/cpu/vector_math.h"
#include "core/device/sequence.h"
#include "core/device/token.h"

namespace millrace::cpu {

namespace {

class EmbeddingLayer final : public CpuKernel {
 public:
  EmbeddingLayer(const SharedEngine& engine, const KernelSpec& spec, const Embedding& operation)
      : CpuKernel(engine, spec), operation_(operation), steps_(spec.inputs[0].height) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() override {
    std::vector<std::unique_ptr<Tensor>> parameters;
    parameters.push_back(make_parameter({operation_.vocabulary, operation_.dimension, 1}));
    return parameters;
  }
  bool streams() const override { return !spec().activation; }
  std::string implementation() const override { return "rows copied"; }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const float* const tokens = own(arguments.inputs[0]).data();
    const float* const weight = own(arguments.parameters[0]).data();
    float* const y = own(arguments.output).data();
    const StepRange steps = chunk_of(*arguments.batch, steps_);
    for (int64_t n = 0; n < samples(); ++n) {
      const int64_t valid = valid_steps(spec(), *arguments.batch, n);
      for (int64_t t = steps.begin; t < steps.end; ++t) {
        float* const to = y + (n * steps_ + t) * operation_.dimension;
        if (t < valid)
          std::copy_n(weight + token(tokens, n, t) * operation_.dimension, operation_.dimension, to);
        else
          std::fill_n(to, operation_.dimension, 0.0f);
      }
    }
  }

  // Tokens have no error.
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr || arguments.adds[0] != 0) return;
    CpuTensor& input_error = own(arguments.input_errors[0]);
    std::fill_n(input_error.data(), input_error.stored(), 0.0f);
  }

  void run_gradient(const GradientArguments& arguments) override {
    const float* const tokens = own(arguments.inputs[0]).data();
    const float* const dy = own(arguments.output_error).data();
    CpuTensor& gradient = own(arguments.gradients[0]);
    if (!arguments.adds) std::fill_n(gradient.data(), gradient.stored(), 0.0f);
    for (int64_t n = 0; n < samples(); ++n)
      for (int64_t t = 0; t < valid_steps(spec(), *arguments.batch, n); ++t)
        add_to(gradient.data() + token(tokens, n, t) * operation_.dimension, dy + (n * steps_ + t) * operation_.dimension,
               operation_.dimension);
  }

 private:
  int64_t token(const float* tokens, int64_t n, int64_t t) const {
    return token_of(tokens[n * steps_ + t], operation_.vocabulary, {spec().layer, n, t});
  }

  Embedding operation_;
  int64_t steps_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedEngine& engine, const KernelSpec& spec, const Embedding& operation) {
  return std::make_unique<EmbeddingLayer>(engine, spec, operation);
}

}  // namespace millrace::cpu
