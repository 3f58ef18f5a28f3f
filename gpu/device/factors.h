// The factors of a product in the precision that it wants: as they are in fp32, rounded into scratch space otherwise. Internal to
// gpu/device.
//
//   const Factor x = factors.rounded(context, Scratch::kFirst, tensor);   gemm.a = x.data;  context.compute({x.buffer, ..}, ..)
#pragma once

#include "core/base/index.h"
#include "gpu/device/gpu_tensor.h"

namespace millrace::gpu {

struct Factor {
  const void* data = nullptr;
  const Buffer* buffer = nullptr;
};

// `order`: with channels last.
inline Factor rounded(Context& context, Scratch scratch, const GpuTensor& tensor, ChannelsLast order = {}) {
  const Precision precision = context.options().precision;
  if (!is_narrow(precision)) return {tensor.data(), &tensor.buffer()};
  const Buffer& narrow = context.scratch(scratch);
  context.run(Narrow{.from = tensor.data(),
                     .to = narrow.as<uint16_t>(),
                     .bfloat = precision == Precision::kBfloat16,
                     .order = order,
                     .elements = tensor.elements()},
              {&tensor.buffer()}, {&narrow});
  return {narrow.as<void>(), &narrow};
}

// Space for rounded() of tensors that large.
inline void reserve_factors(Context& context, std::string_view layer, int64_t first, int64_t second) {
  if (!is_narrow(context.options().precision)) return;
  const std::string what = fmt::format("layer \"{}\": factors in {}", layer, name_of(context.options().precision));
  context.reserve(Scratch::kFirst, to_size(first) * sizeof(uint16_t), what);
  context.reserve(Scratch::kSecond, to_size(second) * sizeof(uint16_t), what);
}

}  // namespace millrace::gpu
