#include "gpu/device/gpu_messages.h"

#include "core/base/check.h"
#include "gpu/device/gpu_tensor.h"

namespace millrace::gpu {

namespace {

WireNumber wire_number(ElementType wire) {
  switch (wire) {
    case ElementType::kFloat32: return WireNumber::kFloat32;
    case ElementType::kFloat16: return WireNumber::kFloat16;
    case ElementType::kBfloat16: return WireNumber::kBfloat16;
    case ElementType::kFloat64:
    case ElementType::kFixed16: break;
  }
  MILLRACE_CHECK(false, "numbers do not travel from GPU to GPU as {}", name_of(wire));
}

MessagePlace place_of(const Tensor& tensor, ChannelRange channels, StepRange rows) {
  const Shape& shape = tensor.shape();
  MILLRACE_CHECK(0 <= channels.begin && channels.begin <= channels.end && channels.end <= shape.channels && 0 <= rows.begin &&
                     rows.begin <= rows.end && rows.end <= shape.height,
                 "channels {}, rows {} to {} of a {} tensor", text_of(channels), rows.begin, rows.end, text_of(shape));
  return {.sample = shape.elements(),
          .channel = shape.plane(),
          .first = channels.begin * shape.plane() + rows.begin * shape.width,
          .channels = channels.size(),
          .run = rows.size() * shape.width};
}

int64_t elements_of(const Tensor& tensor, const MessagePlace& place) { return tensor.batch() * place.channels * place.run; }

}  // namespace

DeviceLocation GpuMessages::location() {
  const Facts facts = context_->engine().facts();
  if (context_->engine().native(Queue::kCompute) == nullptr) return {};
  return {.id = facts.id, .number = facts.number, .queue = context_->engine().native(Queue::kCompute)};
}

void GpuMessages::pack(const Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, std::byte* payload) {
  const MessagePlace place = place_of(tensor, channels, rows);
  translated([&] {
    context_->run(PackMessage{.tensor = own(&tensor).data(),
                              .message = payload,
                              .place = place,
                              .wire = wire_number(wire),
                              .elements = elements_of(tensor, place)},
                  {&own(&tensor).buffer()}, {});
    context_->end_of_calculation();
  });
}

void GpuMessages::unpack(Tensor& tensor, ChannelRange channels, StepRange rows, ElementType wire, const std::byte* payload) {
  const MessagePlace place = place_of(tensor, channels, rows);
  translated([&] {
    context_->run(UnpackMessage{.message = payload,
                                .tensor = own(&tensor).data(),
                                .place = place,
                                .wire = wire_number(wire),
                                .elements = elements_of(tensor, place)},
                  {}, {&own(&tensor).buffer()});
    context_->end_of_calculation();
  });
}

}  // namespace millrace::gpu
