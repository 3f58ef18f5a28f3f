#include "core/reference/reference_kernel.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/device/activation_math.h"
#include "core/device/sequence.h"

namespace millrace::reference {

namespace {

template <typename T>
std::vector<std::unique_ptr<Tensor>> make_tensors(const std::vector<Shape>& shapes) {
  std::vector<std::unique_ptr<Tensor>> tensors;
  for (const Shape& shape : shapes) tensors.push_back(std::make_unique<ReferenceTensor<T>>(TensorSpec{.shape = shape, .batch = 1}));
  return tensors;
}

// Runs add_to(tensor of zeros) and puts the result into `target`, or adds it to what is there; of a part in time its rows alone.
template <typename T, typename AddTo>
void deliver(ReferenceTensor<T>& target, bool adds, const MicroBatch* batch, AddTo add_to) {
  if (!adds && (batch == nullptr || batch->chunks == 1)) {
    std::ranges::fill(target.values(), T{0});
    add_to(target);
    return;
  }
  ReferenceTensor<T> result({.shape = target.shape(), .batch = target.batch()});
  add_to(result);
  const int64_t height = target.shape().height;
  const StepRange rows = batch == nullptr ? StepRange{0, height} : chunk_of(*batch, height);
  for (int64_t i = 0; i < target.elements(); ++i) {
    const int64_t row = i / target.shape().width % height;
    if (rows.begin <= row && row < rows.end) target[i] = adds ? target[i] + result[i] : result[i];
  }
}

}  // namespace

template <typename T>
ReferenceKernel<T>::ReferenceKernel(KernelSpec spec) : spec_(std::move(spec)) {}

template <typename T>
std::vector<std::unique_ptr<Tensor>> ReferenceKernel<T>::make_parameters() {
  return make_tensors<T>(parameter_shapes());
}

template <typename T>
std::vector<std::unique_ptr<Tensor>> ReferenceKernel<T>::make_state() {
  return make_tensors<T>(state_shapes());
}

template <typename T>
std::unique_ptr<Tensor> ReferenceKernel<T>::make_keep() {
  if (keep_shape().elements() == 0) return nullptr;
  return std::make_unique<ReferenceTensor<T>>(TensorSpec{.shape = keep_shape(), .batch = 1});
}

template <typename T>
void ReferenceKernel<T>::forward(const ForwardArguments& arguments) {
  check_inputs(spec_, arguments.inputs);
  auto& output = own<T>(arguments.output);
  check_like_output(spec_, &output);
  deliver(output, spec_.adds_to_output, arguments.batch, [&](ReferenceTensor<T>& result) { add_output(arguments, result); });
  if (spec_.activation) {
    const ActivationMath<T> activation(*spec_.activation);
    for (T& value : output.values()) value = activation(value);
  }
}

template <typename T>
void ReferenceKernel<T>::error_back(const ErrorBackArguments& arguments) {
  check_inputs(spec_, arguments.inputs);
  if (spec_.activation) {
    const ActivationMath<T> activation(*spec_.activation);
    const auto& output = own<T>(arguments.output);
    auto& error = own<T>(arguments.output_error);
    check_like_output(spec_, &output);
    check_like_output(spec_, &error);
    for (int64_t i = 0; i < error.elements(); ++i) error[i] *= activation.derivative(output[i]);
  }
  check_input_errors(spec_, arguments);
  before_input_errors(arguments);
  for (size_t input = 0; input < arguments.input_errors.size(); ++input) {
    if (arguments.input_errors[input] == nullptr) continue;
    auto& input_error = own<T>(arguments.input_errors[input]);
    deliver(input_error, arguments.adds[input] != 0, arguments.batch,
            [&](ReferenceTensor<T>& error) { add_input_error(arguments, input, error); });
  }
}

template <typename T>
void ReferenceKernel<T>::parameter_gradient(const GradientArguments& arguments) {
  check_inputs(spec_, arguments.inputs);
  std::vector<std::unique_ptr<Tensor>> gradients = make_parameters();
  std::vector<Tensor*> pointers;
  for (const auto& gradient : gradients) pointers.push_back(gradient.get());
  // A frozen layer is asked only to commit its statistics.
  const bool wanted = !arguments.gradients.empty();
  MILLRACE_CHECK(!wanted || arguments.gradients.size() == gradients.size(), "{}: {} gradients, expected {}", spec_.layer,
                 arguments.gradients.size(), gradients.size());
  GradientArguments alone = arguments;
  alone.gradients = pointers;
  add_gradients(alone);
  for (size_t g = 0; wanted && g < gradients.size(); ++g) {
    auto& target = own<T>(arguments.gradients[g]);
    const auto& gradient = own<T>(gradients[g].get());
    MILLRACE_CHECK(target.shape() == gradient.shape(), "{}: gradient {} is {}, expected {}", spec_.layer, g, text_of(target.shape()),
                   text_of(gradient.shape()));
    for (int64_t i = 0; i < target.elements(); ++i) target[i] = arguments.adds ? target[i] + gradient[i] : gradient[i];
  }
}

template class ReferenceKernel<float>;
template class ReferenceKernel<double>;

}  // namespace millrace::reference
