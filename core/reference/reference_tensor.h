// A tensor of the reference device: one contiguous array in canonical order. Internal to core/reference.
//
//   ReferenceTensor<double> x({.shape = {3, 8, 8}, .batch = 2});
//   x.at(sample, channel, row, column) = 1;
//
// Parameters are tensors of batch 1: a convolution's weight is {outputs, inputs per group, kernel_h * kernel_w}, a
// dense one {outputs, inputs, 1}, everything per channel {channels, 1, 1}; in memory that is the canonical
// [output][input][kernel row][kernel column].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/device.h"

namespace millrace::reference {

template <typename T>
class ReferenceTensor final : public Tensor {
 public:
  explicit ReferenceTensor(const TensorSpec& spec) : Tensor(spec), values_(to_size(elements())) {}

  int64_t bytes() const override { return elements() * static_cast<int64_t>(sizeof(T)); }

  std::span<T> values() { return values_; }
  std::span<const T> values() const { return values_; }

  T& at(int64_t sample, int64_t channel, int64_t row, int64_t column) { return values_.data()[offset(sample, channel, row, column)]; }
  T at(int64_t sample, int64_t channel, int64_t row, int64_t column) const { return values_.data()[offset(sample, channel, row, column)]; }
  // By index in memory.
  T& operator[](int64_t index) { return values_.data()[index]; }
  T operator[](int64_t index) const { return values_.data()[index]; }

 private:
  int64_t offset(int64_t sample, int64_t channel, int64_t row, int64_t column) const {
    return ((sample * shape().channels + channel) * shape().height + row) * shape().width + column;
  }

  std::vector<T> values_;
};

// The tensor as this device's own; one of another device or element type is the caller's mistake.
template <typename T>
ReferenceTensor<T>& own(Tensor* tensor) {
  auto* mine = dynamic_cast<ReferenceTensor<T>*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "{} tensor handed to the reference device", tensor == nullptr ? "a missing" : "another device's");
  return *mine;
}
template <typename T>
const ReferenceTensor<T>& own(const Tensor* tensor) {
  const auto* mine = dynamic_cast<const ReferenceTensor<T>*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "{} tensor handed to the reference device", tensor == nullptr ? "a missing" : "another device's");
  return *mine;
}

}  // namespace millrace::reference
