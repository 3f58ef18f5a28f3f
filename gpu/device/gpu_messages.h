// A GPU's messages: packed and unpacked by its own threads, where they lie. The part of a GpuDevice that wires see. Internal to gpu/device.
//
//   GpuMessages messages(context);
//   messages.pack(tensor, {0, 16}, {0, 28}, ElementType::kFloat32, payload);      // queued for calculation, behind what makes the tensor
//
// Payloads belong to a wire: what orders its transfers behind the queue, and this work behind the transfers, is the wire's. Shares the
// context.
#pragma once

#include "core/device/device_messages.h"
#include "gpu/device/gpu_kernel.h"

namespace millrace::gpu {

class GpuMessages : public DeviceMessages {
 public:
  explicit GpuMessages(SharedContext context) : context_(std::move(context)) {}

  DeviceLocation location() override;
  void pack(const Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, std::byte* payload) override;
  void unpack(Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, const std::byte* payload) override;

 private:
  SharedContext context_;
};

}  // namespace millrace::gpu
