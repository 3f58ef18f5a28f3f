// Dropout with the shared mask (core/device/dropout_mask.h), drawn again in E.
#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/dropout_mask.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

template <typename T>
class DropoutLayer final : public ReferenceKernel<T> {
 public:
  DropoutLayer(const KernelSpec& spec, const Dropout& operation) : ReferenceKernel<T>(spec), operation_(operation) {}
  bool streams() const override { return this->streams_rows(); }

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    for_each_factor(*arguments.batch, [&](int64_t i, T factor) { output[i] += input[i] * factor; });
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& output_error = own<T>(arguments.output_error);
    for_each_factor(*arguments.batch, [&](int64_t i, T factor) { input_error[i] += output_error[i] * factor; });
  }

 private:
  template <typename Visit>
  void for_each_factor(const MicroBatch& batch, Visit visit) const {
    const int64_t elements = this->spec().output.elements();
    MILLRACE_CHECK(!batch.training || static_cast<int64_t>(batch.sample_ids.size()) == this->samples(), "{}: {} sample ids for {} samples",
                   this->spec().layer, batch.sample_ids.size(), this->samples());
    const DropoutMask<T> mask(operation_, batch.seed, this->spec().layer, elements);
    for (int64_t sample = 0; sample < this->samples(); ++sample)
      for (int64_t element = 0; element < elements; ++element)
        visit(sample * elements + element, batch.training ? mask.factor(batch.epoch, fast_item(batch.sample_ids, sample), element) : T{1});
  }

  Dropout operation_;
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Dropout& operation) {
  return std::make_unique<DropoutLayer<T>>(spec, operation);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Dropout&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Dropout&);

}  // namespace millrace::reference
