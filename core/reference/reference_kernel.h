// What the reference kernels have in common. Internal to core/reference.
//
// A derived kernel only ever ADDS to tensors that start at zero: its result to the output, its errors to an input's
// error, its gradients to the gradients. Whatever accumulates over calls is thus summed on its own first and then added
// to what is there. That, the fused activation and its derivative, missing input errors and the shapes of everything
// that comes in are settled here, once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/reference/reference_tensor.h"

namespace millrace::reference {

template <typename T>
class ReferenceKernel : public Kernel {
 public:
  explicit ReferenceKernel(KernelSpec spec);

  std::vector<std::unique_ptr<Tensor>> make_parameters() final;
  std::vector<std::unique_ptr<Tensor>> make_state() final;
  std::unique_ptr<Tensor> make_keep() final;

  void forward(const ForwardArguments& arguments) final;
  void error_back(const ErrorBackArguments& arguments) final;
  void parameter_gradient(const GradientArguments& arguments) final;

  std::string implementation() const final { return "plain loops"; }

 protected:
  const KernelSpec& spec() const { return spec_; }
  int64_t samples() const { return spec_.micro_batch; }
  // Of sequences; what a part does not ask for is made as well, and thrown away.
  bool streams_rows() const { return spec_.output.width == 1 && !spec_.activation; }

  // visit(channel, index in memory) for every element of a tensor like the output, sample by sample.
  template <typename Visit>
  void for_each_element(Visit visit) const {
    const Shape& shape = spec_.output;
    for (int64_t i = 0; i < spec_.micro_batch * shape.elements(); ++i) visit(i / shape.plane() % shape.channels, i);
  }

  virtual std::vector<Shape> parameter_shapes() const { return {}; }
  virtual std::vector<Shape> state_shapes() const { return {}; }
  // No elements: nothing is kept.
  virtual Shape keep_shape() const { return {}; }

  // What E settles for all inputs, and for G, before it turns to one.
  virtual void before_input_errors(const ErrorBackArguments& arguments) { (void)arguments; }
  virtual void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) = 0;
  // Adds the error of one input, given the error before the fused activation.
  virtual void add_input_error(const ErrorBackArguments& arguments, size_t input, ReferenceTensor<T>& input_error) = 0;
  virtual void add_gradients(const GradientArguments& arguments) { (void)arguments; }

 private:
  KernelSpec spec_;
};

extern template class ReferenceKernel<float>;
extern template class ReferenceKernel<double>;

}  // namespace millrace::reference
