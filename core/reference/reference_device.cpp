#include "core/reference/reference_device.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/device/optimizer_math.h"
#include "core/reference/operations.h"
#include "core/reference/reference_tensor.h"

namespace millrace {

namespace {

using reference::own;
using reference::ReferenceTensor;

// Picks the maker of an operation.
template <typename T>
struct KernelMaker {
  const KernelSpec& spec;

  std::unique_ptr<Kernel> operator()(const Conv2d& o) const { return reference::make_convolution<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Dense& o) const { return reference::make_dense<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Pool2d& o) const { return reference::make_pooling<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const GlobalPool& o) const { return reference::make_global_pooling<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Activation& o) const { return reference::make_activation<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const BatchNorm& o) const { return reference::make_batch_norm<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const LocalResponseNorm& o) const { return reference::make_local_response_norm<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Dropout& o) const { return reference::make_dropout<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Add& o) const { return reference::make_add<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Concat& o) const { return reference::make_concat<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Flatten& o) const { return reference::make_flatten<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const ToSequence& o) const { return reference::make_to_sequence<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const LastStep& o) const { return reference::make_last_step<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const SoftmaxCrossEntropy& o) const { return reference::make_softmax_loss<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Recurrent& o) const { return reference::make_recurrent<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const Embedding& o) const { return reference::make_embedding<T>(spec, o); }
  std::unique_ptr<Kernel> operator()(const CtcLoss& o) const { return reference::make_ctc_loss<T>(spec, o); }
};

template <typename T>
class ReferenceDevice final : public Device {
 public:
  std::string description() const override { return fmt::format("reference (plain loops, {})", name_of(compute_type())); }
  ElementType compute_type() const override { return std::is_same_v<T, double> ? ElementType::kFloat64 : ElementType::kFloat32; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    MILLRACE_CHECK(!spec.inputs.empty() && spec.micro_batch > 0, "{}: {} inputs, micro-batch {}", spec.layer, spec.inputs.size(),
                   spec.micro_batch);
    if (spec.finish && std::holds_alternative<Recurrent>(spec.operation)) return KernelMaker<T>{spec}(std::get<Recurrent>(spec.operation));
    if (spec.finish) return reference::make_finish<T>(spec);
    const Shape expected = infer_shape(spec.operation, spec.inputs, spec.layer);
    MILLRACE_CHECK(expected == spec.output, "{}: output {}, expected {}", spec.layer, text_of(spec.output), text_of(expected));
    return std::visit(KernelMaker<T>{spec}, spec.operation);
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return std::make_unique<ReferenceTensor<T>>(spec); }

  void write(Tensor& tensor, ChannelRange channels, std::span<const float> host) override { write_from(tensor, channels, host); }
  void write(Tensor& tensor, ChannelRange channels, std::span<const double> host) override { write_from(tensor, channels, host); }
  void read(const Tensor& tensor, ChannelRange channels, std::span<float> host) override { read_into(tensor, channels, host); }
  void read(const Tensor& tensor, ChannelRange channels, std::span<double> host) override { read_into(tensor, channels, host); }

  void zero(Tensor& tensor) override { std::ranges::fill(own<T>(&tensor).values(), T{0}); }

  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    const auto& source = own<T>(&from);
    auto& target = own<T>(&to);
    check_range(from, channels);
    check_range(to, {to_begin, to_begin + channels.size()});
    MILLRACE_CHECK(from.batch() == to.batch() && from.shape().plane() == to.shape().plane(), "copy from {} x {} to {} x {}", from.batch(),
                   text_of(from.shape()), to.batch(), text_of(to.shape()));
    const int64_t plane = from.shape().plane();
    for (int64_t sample = 0; sample < from.batch(); ++sample)
      for (int64_t i = 0; i < channels.size() * plane; ++i) {
        const T value = source[(sample * from.shape().channels + channels.begin) * plane + i];
        T& slot = target[(sample * to.shape().channels + to_begin) * plane + i];
        slot = add ? slot + value : value;
      }
  }

  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    const auto slot = [&](size_t index) { return index < slots.size() ? own<T>(slots[index]).values() : std::span<T>{}; };
    update_elements<T>(arguments, own<T>(&parameter).values(), own<T>(&gradient).values(), slot(0), slot(1));
  }

  double squared_norm(const Tensor& tensor) override {
    double sum = 0;
    for (const T value : own<T>(&tensor).values()) sum += static_cast<double>(value) * static_cast<double>(value);
    return sum;
  }

  bool all_finite(const Tensor& tensor) override {
    return std::ranges::all_of(own<T>(&tensor).values(), [](T value) { return std::isfinite(value); });
  }

 private:
  static void check_range(const Tensor& tensor, ChannelRange channels) {
    MILLRACE_CHECK(0 <= channels.begin && channels.begin <= channels.end && channels.end <= tensor.shape().channels,
                   "channels {} of a {} tensor", text_of(channels), text_of(tensor.shape()));
  }

  // Calls visit(index in the tensor, index in the host data).
  template <typename Visit>
  static void for_each_transferred(const Tensor& tensor, ChannelRange channels, size_t host_size, Visit visit) {
    check_range(tensor, channels);
    const int64_t slice = channels.size() * tensor.shape().plane();
    MILLRACE_CHECK(static_cast<int64_t>(host_size) == slice * tensor.batch(), "{} host values for channels {} of {} x {}", host_size,
                   text_of(channels), tensor.batch(), text_of(tensor.shape()));
    for (int64_t sample = 0; sample < tensor.batch(); ++sample)
      for (int64_t i = 0; i < slice; ++i)
        visit(sample * tensor.shape().elements() + channels.begin * tensor.shape().plane() + i, static_cast<size_t>(sample * slice + i));
  }
  template <typename U>
  static void write_from(Tensor& tensor, ChannelRange channels, std::span<const U> host) {
    auto& target = own<T>(&tensor);
    for_each_transferred(tensor, channels, host.size(), [&](int64_t at, size_t from) { target[at] = static_cast<T>(host[from]); });
  }
  template <typename U>
  static void read_into(const Tensor& tensor, ChannelRange channels, std::span<U> host) {
    const auto& source = own<T>(&tensor);
    for_each_transferred(tensor, channels, host.size(), [&](int64_t at, size_t to) { host[to] = static_cast<U>(source[at]); });
  }
};

}  // namespace

std::unique_ptr<Device> make_reference_device(ElementType type) {
  switch (type) {
    case ElementType::kFloat64: return std::make_unique<ReferenceDevice<double>>();
    case ElementType::kFloat32: return std::make_unique<ReferenceDevice<float>>();
    default: break;
  }
  fail(ErrorCode::kUnavailable, "the reference device computes in fp64 and fp32, not in {}", name_of(type));
}

}  // namespace millrace
