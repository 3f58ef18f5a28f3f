#include "core/reference/reference_device.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/dispatch.h"
#include "core/device/kernel_checks.h"
#include "core/device/optimizer_math.h"
#include "core/reference/kernels.h"
#include "core/reference/reference_tensor.h"

namespace millrace {

namespace {

using reference::own;
using reference::ReferenceTensor;

template <typename T>
class ReferenceDevice final : public Device {
 public:
  std::string description() const override { return fmt::format("reference (plain loops, {})", name_of(compute_type())); }
  ElementType compute_type() const override { return std::is_same_v<T, double> ? ElementType::kFloat64 : ElementType::kFloat32; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return dispatch(
        spec, [&] { return reference::make_finish<T>(spec); },
        [&](const auto& operation) { return reference::make_kernel_for<T>(spec, operation); });
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return std::make_unique<ReferenceTensor<T>>(spec); }

  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override {
    auto& target = own<T>(&tensor);
    host.visit([&](auto values) {
      for_each_transferred(tensor, channels, values.size(), [&](int64_t at, size_t from) { target[at] = static_cast<T>(values[from]); });
    });
  }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override {
    const auto& source = own<T>(&tensor);
    host.visit([&]<typename U>(std::span<U> values) {
      for_each_transferred(tensor, channels, values.size(), [&](int64_t at, size_t to) { values[to] = static_cast<U>(source[at]); });
    });
  }

  void zero(Tensor& tensor) override { std::ranges::fill(own<T>(&tensor).values(), T{0}); }

  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    const auto& source = own<T>(&from);
    auto& target = own<T>(&to);
    check_copy(from, channels, to, to_begin);
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
    update_elements<T>(arguments, own<T>(&parameter).values(), own<T>(&gradient).values(), slot(0), slot(1),
                       slot(arguments.optimizer.average_slot()));
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
  // Calls visit(index in the tensor, index in the host data).
  template <typename Visit>
  static void for_each_transferred(const Tensor& tensor, ChannelRange channels, size_t host_size, Visit visit) {
    check_host(tensor, channels, host_size);
    const int64_t slice = channels.size() * tensor.shape().plane();
    for (int64_t sample = 0; sample < tensor.batch(); ++sample)
      for (int64_t i = 0; i < slice; ++i)
        visit(sample * tensor.shape().elements() + channels.begin * tensor.shape().plane() + i, to_size(sample * slice + i));
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
