// Embedding: the row of the weight that a step's token names. Gradients of a token used more than once add up.
#include <algorithm>

#include "core/device/sequence.h"
#include "core/device/token.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class EmbeddingLayer final : public ReferenceKernel<T> {
 public:
  EmbeddingLayer(const KernelSpec& spec, const Embedding& operation) : ReferenceKernel<T>(spec), operation_(operation) {}
  bool streams() const override { return this->streams_rows(); }

 protected:
  std::vector<Shape> parameter_shapes() const override { return {{operation_.vocabulary, operation_.dimension, 1}}; }

  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& weight = own<T>(arguments.parameters[0]);
    for_each_token(arguments.inputs[0], *arguments.batch, [&](int64_t n, int64_t t, int64_t token) {
      for (int64_t j = 0; j < operation_.dimension; ++j) output.at(n, j, t, 0) += weight.at(0, token, j, 0);
    });
  }

  void add_input_error(const ErrorBackArguments&, size_t, ReferenceTensor<T>&) override {}  // tokens have none

  void add_gradients(const GradientArguments& arguments) override {
    const auto& output_error = own<T>(arguments.output_error);
    auto& gradient = own<T>(arguments.gradients[0]);
    for_each_token(arguments.inputs[0], *arguments.batch, [&](int64_t n, int64_t t, int64_t token) {
      for (int64_t j = 0; j < operation_.dimension; ++j) gradient.at(0, token, j, 0) += output_error.at(n, j, t, 0);
    });
  }

 private:
  template <typename Visit>
  void for_each_token(const Tensor* input, const MicroBatch& batch, Visit visit) const {
    const auto& tokens = own<T>(input);
    const StepRange steps = chunk_of(batch, this->spec().inputs[0].height);
    for (int64_t n = 0; n < this->samples(); ++n)
      for (int64_t t = steps.begin; t < std::min(steps.end, valid_steps(this->spec(), batch, n)); ++t)
        visit(n, t, token_of(tokens.at(n, 0, t, 0), operation_.vocabulary, {this->spec().layer, n, t}));
  }

  Embedding operation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Embedding& operation) {
  return std::make_unique<EmbeddingLayer<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Embedding&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Embedding&);

}  // namespace millrace::reference
