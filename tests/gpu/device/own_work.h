// Who carries out what a GPU device calculates by itself (gpu/device's element and reduction work, its convolutions by plain loops) where a
// stand-in engine does not do it by loops on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpu/device/direct_convolution.h"
#include "gpu/device/element_work.h"
#include "gpu/device/reduction_work.h"

namespace millrace::testing {

class OwnWork {
 public:
  // Whether bytes at an address are memory of the device.
  using MayAccess = std::function<bool(uint64_t address, size_t bytes)>;

  virtual ~OwnWork() = default;
  virtual void run(const gpu::ElementWork& work, const MayAccess& may_access) = 0;
  virtual void run(const gpu::ReductionWork& work, const MayAccess& may_access) = 0;
  virtual void run(const gpu::DirectConvolution& work, const MayAccess& may_access) = 0;
};

}  // namespace millrace::testing
