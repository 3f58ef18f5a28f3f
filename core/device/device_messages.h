// Messages that stay in a device's own memory: for devices between which a wire carries payloads without the host (GPUs, by NCCL).
//
//   if (DeviceMessages* messages = messages_of(device); messages != nullptr && travels_on_devices(flow.wire))
//     messages->pack(*y, {0, 16}, {0, y->shape().height}, flow.wire, payload);      // payload: the device's memory
//
// The bytes are those that the host would make of read() and the wire type: canonical, [sample][channel][row][column], rounded to
// nearest with ties to even, saturated. Both calls queue work on the location's queue and return; whoever reads or reuses the payload
// orders that behind the queue. A device that can do this is a DeviceMessages as well; memory of payloads is the wire's.
#pragma once

#include <cstddef>
#include <string>

#include "core/device/device.h"

namespace millrace {

// Whether elements can travel as this; the same for all devices that have messages.
constexpr bool travels_on_devices(ElementType wire) {
  return wire == ElementType::kFloat32 || wire == ElementType::kFloat16 || wire == ElementType::kBfloat16;
}

// Where a device computes, as wires that reach its memory want to know.
struct DeviceLocation {
  std::string id;         // of the physical device, the same in every process and on no other machine
  int number = 0;         // as its driver counts here
  void* queue = nullptr;  // of its calculations: a cudaStream_t
};

class DeviceMessages {
 public:
  virtual ~DeviceMessages() = default;

  // No id: this one cannot after all.
  virtual DeviceLocation location() = 0;
  virtual void pack(const Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, std::byte* payload) = 0;
  virtual void unpack(Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, const std::byte* payload) = 0;
};

// Null where messages lie in host memory alone.
inline DeviceMessages* messages_of(Device& device) { return dynamic_cast<DeviceMessages*>(&device); }

}  // namespace millrace
