// Local response normalisation across channels: y = x * (k + alpha / size * sum of x^2 over the window)^-beta, where
// the window of channel c is [c - size/2, c + (size-1)/2], cut off at the first and last channel (zeros beyond).
#include <algorithm>
#include <cmath>

#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class ResponseNormalisation final : public ReferenceKernel<T> {
 public:
  ResponseNormalisation(const KernelSpec& spec, const LocalResponseNorm& operation)
      : ReferenceKernel<T>(spec),
        size_(operation.size),
        alpha_(static_cast<T>(operation.alpha)),
        beta_(static_cast<T>(operation.beta)),
        k_(static_cast<T>(operation.k)) {}

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& x = own<T>(arguments.inputs[0]);
    for_each([&](int64_t n, int64_t c, int64_t row, int64_t column) {
      output.at(n, c, row, column) += x.at(n, c, row, column) * std::pow(base(x, n, c, row, column), -beta_);
    });
  }

  // x_c appears in its own numerator, and in the base of every channel whose window holds c.
  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& x = own<T>(arguments.inputs[0]);
    const auto& error = own<T>(arguments.output_error);
    for_each([&](int64_t n, int64_t c, int64_t row, int64_t column) {
      T through_bases = 0;
      for (int64_t j = std::max<int64_t>(c - (size_ - 1) / 2, 0); j <= std::min(c + size_ / 2, channels() - 1); ++j)
        through_bases += error.at(n, j, row, column) * x.at(n, j, row, column) * std::pow(base(x, n, j, row, column), -beta_ - T{1});
      input_error.at(n, c, row, column) += error.at(n, c, row, column) * std::pow(base(x, n, c, row, column), -beta_) -
                                           T{2} * alpha_ * beta_ / static_cast<T>(size_) * x.at(n, c, row, column) * through_bases;
    });
  }

 private:
  int64_t channels() const { return this->spec().output.channels; }

  template <typename Visit>
  void for_each(Visit visit) const {
    const Shape& shape = this->spec().output;
    for (int64_t n = 0; n < this->samples(); ++n)
      for (int64_t c = 0; c < shape.channels; ++c)
        for (int64_t row = 0; row < shape.height; ++row)
          for (int64_t column = 0; column < shape.width; ++column) visit(n, c, row, column);
  }

  T base(const ReferenceTensor<T>& x, int64_t n, int64_t c, int64_t row, int64_t column) const {
    T squares = 0;
    for (int64_t j = std::max<int64_t>(c - size_ / 2, 0); j <= std::min(c + (size_ - 1) / 2, channels() - 1); ++j)
      squares += x.at(n, j, row, column) * x.at(n, j, row, column);
    return k_ + alpha_ / static_cast<T>(size_) * squares;
  }

  int64_t size_;
  T alpha_, beta_, k_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const LocalResponseNorm& operation) {
  return std::make_unique<ResponseNormalisation<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const LocalResponseNorm&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const LocalResponseNorm&);

}  // namespace millrace::reference
