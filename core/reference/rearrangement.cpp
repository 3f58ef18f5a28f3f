// Operations that compute nothing but move or add elements: add, concat, flatten, to-sequence, last-step. Each but the
// last is a map from the elements of every input to elements of the output; forward walks it one way, E the other.
#include <utility>

#include "core/device/sequence.h"
#include "core/reference/operations.h"
#include "core/reference/reference_kernel.h"

namespace millrace::reference {

namespace {

// Map::operator()(input, channel, row, column) gives the index of the output element, within its sample, that receives
// that element of that input; -1 when none does.
template <typename T, typename Map>
class Rearrangement final : public ReferenceKernel<T> {
 public:
  Rearrangement(const KernelSpec& spec, Map map) : ReferenceKernel<T>(spec), map_(std::move(map)) {}
  bool streams() const override { return std::holds_alternative<Add>(this->spec().operation) && this->streams_rows(); }

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    for (size_t input = 0; input < arguments.inputs.size(); ++input) {
      const auto& x = own<T>(arguments.inputs[input]);
      for_each(input, [&](int64_t from, int64_t to) { output[to] += x[from]; });
    }
  }

  void add_input_error(const ErrorBackArguments& arguments, size_t input, ReferenceTensor<T>& input_error) override {
    const auto& output_error = own<T>(arguments.output_error);
    for_each(input, [&](int64_t from, int64_t to) { input_error[from] += output_error[to]; });
  }

 private:
  template <typename Visit>
  void for_each(size_t input, Visit visit) const {
    const Shape& in = this->spec().inputs[input];
    int64_t from = 0;
    for (int64_t sample = 0; sample < this->samples(); ++sample)
      for (int64_t channel = 0; channel < in.channels; ++channel)
        for (int64_t row = 0; row < in.height; ++row)
          for (int64_t column = 0; column < in.width; ++column, ++from) {
            const int64_t to = map_(input, channel, row, column);
            if (to >= 0) visit(from, sample * this->spec().output.elements() + to);
          }
  }

  Map map_;
};

template <typename T, typename Map>
std::unique_ptr<Kernel> make_rearrangement(const KernelSpec& spec, Map map) {
  return std::make_unique<Rearrangement<T, Map>>(spec, std::move(map));
}

// In canonical order, within a sample of this shape.
int64_t index_in(const Shape& shape, int64_t channel, int64_t row, int64_t column) {
  return (channel * shape.height + row) * shape.width + column;
}

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Add&) {
  return make_rearrangement<T>(
      spec, [shape = spec.output](size_t, int64_t channel, int64_t row, int64_t column) { return index_in(shape, channel, row, column); });
}

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Concat&) {
  std::vector<int64_t> first_channel;
  int64_t next = 0;
  for (const Shape& input : spec.inputs) {
    first_channel.push_back(next);
    next += input.channels;
  }
  return make_rearrangement<T>(spec, [shape = spec.output, first_channel](size_t input, int64_t channel, int64_t row, int64_t column) {
    return index_in(shape, first_channel[input] + channel, row, column);
  });
}

// {C, H, W} -> {C*H*W, 1, 1}: canonical order stays as it is.
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const Flatten&) {
  return make_rearrangement<T>(spec, [shape = spec.inputs[0]](size_t, int64_t channel, int64_t row, int64_t column) {
    return index_in(shape, channel, row, column);
  });
}

// {C, T, W} -> {C*W, T, 1}: feature c * W + w of step t.
template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const ToSequence&) {
  return make_rearrangement<T>(spec, [in = spec.inputs[0], out = spec.output](size_t, int64_t channel, int64_t row, int64_t column) {
    return index_in(out, channel * in.width + column, row, 0);
  });
}

namespace {

// {F, T, 1} -> {F, 1, 1}: of each sample's own last step.
template <typename T>
class LastStepLayer final : public ReferenceKernel<T> {
 public:
  explicit LastStepLayer(const KernelSpec& spec) : ReferenceKernel<T>(spec) {}

 protected:
  void add_output(const ForwardArguments& arguments, ReferenceTensor<T>& output) override {
    const auto& input = own<T>(arguments.inputs[0]);
    for_each_feature(*arguments.batch, [&](int64_t n, int64_t c, int64_t last) { output.at(n, c, 0, 0) += input.at(n, c, last, 0); });
  }
  void add_input_error(const ErrorBackArguments& arguments, size_t, ReferenceTensor<T>& input_error) override {
    const auto& output_error = own<T>(arguments.output_error);
    for_each_feature(*arguments.batch,
                     [&](int64_t n, int64_t c, int64_t last) { input_error.at(n, c, last, 0) += output_error.at(n, c, 0, 0); });
  }

 private:
  template <typename Visit>
  void for_each_feature(const MicroBatch& batch, Visit visit) const {
    for (int64_t n = 0; n < this->samples(); ++n) {
      const int64_t last = valid_steps(this->spec(), batch, n) - 1;
      for (int64_t c = 0; last >= 0 && c < this->spec().output.channels; ++c) visit(n, c, last);
    }
  }
};

}  // namespace

template <typename T>
std::unique_ptr<Kernel> make_kernel_for(const KernelSpec& spec, const LastStep&) {
  return std::make_unique<LastStepLayer<T>>(spec);
}

template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Add&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Add&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Concat&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Concat&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const Flatten&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const Flatten&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const ToSequence&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const ToSequence&);
template std::unique_ptr<Kernel> make_kernel_for<float>(const KernelSpec&, const LastStep&);
template std::unique_ptr<Kernel> make_kernel_for<double>(const KernelSpec&, const LastStep&);

}  // namespace millrace::reference
