// A tensor of a GPU: fp32 in canonical order, one piece of its memory. Internal to gpu/device.
#pragma once

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/device/device.h"
#include "gpu/device/context.h"

namespace millrace::gpu {

class GpuTensor final : public Tensor {
 public:
  GpuTensor(Context& context, const TensorSpec& spec, std::string_view what)
      : Tensor(spec), buffer_(context.allocate(to_size(elements()) * sizeof(float), what)) {}

  int64_t bytes() const override { return static_cast<int64_t>(buffer_.bytes()); }
  const Buffer& buffer() const { return buffer_; }
  float* data() const { return buffer_.as<float>(); }

 private:
  Buffer buffer_;
};

// The tensor as this device's own; one of another device is the caller's mistake.
inline const GpuTensor& own(const Tensor* tensor) {
  const auto* mine = dynamic_cast<const GpuTensor*>(tensor);
  MILLRACE_CHECK(mine != nullptr, "{} tensor handed to the GPU", tensor == nullptr ? "a missing" : "another device's");
  return *mine;
}

}  // namespace millrace::gpu
