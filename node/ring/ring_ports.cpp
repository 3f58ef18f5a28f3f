#include "node/ring/ring_ports.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/device/device_messages.h"
#include "node/ring/wire_format.h"

namespace millrace {
namespace {

int64_t elements_of(const Tensor& tensor, ChannelRange channels, StepRange steps) {
  return tensor.batch() * channels.size() * steps.size() * tensor.shape().width;
}
bool all_steps(const Tensor& tensor, StepRange steps) { return steps.size() == tensor.shape().height; }

// A device that is paced leaves its rank free for what passes by.
constexpr Nanoseconds kLookAround = std::chrono::microseconds(100);

template <typename Number>
constexpr ElementType kTypeOf = std::is_same_v<Number, float> ? ElementType::kFloat32 : ElementType::kFloat64;

DeviceMessages& own_messages_of(Device& device) {
  DeviceMessages* const messages = messages_of(device);
  MILLRACE_CHECK(messages != nullptr, "{} has a flow in memory of its own, and no such memory", device.description());
  return *messages;
}

}  // namespace

template <typename Number>
void RingPorts::receive_as(ElementType wire, Device& device, Tensor& tensor, ChannelRange channels, StepRange steps,
                           std::span<const std::byte> payload, std::vector<Number>& numbers) {
  const auto elements = static_cast<size_t>(elements_of(tensor, channels, steps));
  std::span<const Number> host;
  if (wire == kTypeOf<Number>) {  // as it arrived
    host = {reinterpret_cast<const Number*>(payload.data()), elements};
  } else {
    numbers.resize(elements);
    unpack(wire, payload, std::span<Number>(numbers));
    host = numbers;
  }
  if (all_steps(tensor, steps))
    device.write(tensor, channels, host);
  else
    device.write_rows(tensor, channels, steps, host);
}

template <typename Number>
void RingPorts::send_as(ElementType wire, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps,
                        std::span<std::byte> payload, std::vector<Number>& numbers) {
  const auto elements = static_cast<size_t>(elements_of(tensor, channels, steps));
  std::span<Number> host;
  if (wire == kTypeOf<Number>) {  // straight into what will travel
    host = {reinterpret_cast<Number*>(payload.data()), elements};
  } else {
    numbers.resize(elements);
    host = numbers;
  }
  if (all_steps(tensor, steps))
    device.read(tensor, channels, host);
  else
    device.read_rows(tensor, channels, steps, host);
  if (wire != kTypeOf<Number>) pack(wire, std::span<const Number>(numbers), payload);
}

void RingPorts::mark(int64_t flow, std::string_view what) {
  if (trace_ == nullptr) return;
  const Flow& spec = plan_.flows[static_cast<size_t>(flow)];
  const std::string chunk = id_.chunk < 0 ? "" : fmt::format(".{}", id_.chunk);
  trace_->mark(device_, fmt::format("{} {}{}", name_of(spec.stream), spec.tensor, training_ ? "" : " (evaluation)"),
               fmt::format("{} {}{}", what, id_.index, chunk), machine_clock().now());
}

void RingPorts::await_due() {
  if (due_ == Instant{}) return;
  for (Clock& clock = machine_clock();;) {
    const Nanoseconds left = due_ - clock.now();
    if (left <= Nanoseconds(0)) return;
    transport_.progress();
    clock.nap(std::min(left, kLookAround));
  }
}

void RingPorts::receive(int64_t flow, Device& device, Tensor& tensor, ChannelRange channels, StepRange steps) {
  const ElementType wire = plan_.flows[static_cast<size_t>(flow)].wire;
  const int64_t on = flow_for(flow);
  const std::span<const std::byte> payload = transport_.begin_receive(on, id_, wire_bytes(wire, elements_of(tensor, channels, steps)));
  if (transport_.table().flows[static_cast<size_t>(on)].device_memory)
    own_messages_of(device).unpack(tensor, channels, steps, wire, payload.data());
  else if (device.compute_type() == ElementType::kFloat64)
    receive_as(wire, device, tensor, channels, steps, payload, wide_);
  else
    receive_as(wire, device, tensor, channels, steps, payload, narrow_);
  // The device has taken the numbers: a write() does before it returns, and in its own memory the wire keeps the order.
  transport_.release(on);
  mark(flow, "received");
}

void RingPorts::send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps) {
  const ElementType wire = plan_.flows[static_cast<size_t>(flow)].wire;
  const int64_t on = flow_for(flow);
  const size_t bytes = wire_bytes(wire, elements_of(tensor, channels, steps));
  await_due();
  const std::span<std::byte> payload = transport_.begin_send(on).first(bytes);
  if (transport_.table().flows[static_cast<size_t>(on)].device_memory)
    own_messages_of(device).pack(tensor, channels, steps, wire, payload.data());
  else if (device.compute_type() == ElementType::kFloat64)
    send_as(wire, device, tensor, channels, steps, payload, wide_);
  else
    send_as(wire, device, tensor, channels, steps, payload, narrow_);
  transport_.commit_send(on, id_, bytes);
  mark(flow, "sent");
}

void RingPorts::receive_row(int64_t flow, std::span<double> row) {
  const std::vector<std::byte> payload = states_.take(flow_for(flow), {id_.index, phase_ - 1});
  unpack(plan_.flows[static_cast<size_t>(flow)].wire, payload, row);
}

void RingPorts::send_row(int64_t flow, std::span<const double> row) {
  const ElementType wire = plan_.flows[static_cast<size_t>(flow)].wire;
  const int64_t on = flow_for(flow);
  const size_t bytes = wire_bytes(wire, static_cast<int64_t>(row.size()));
  pack(wire, row, transport_.begin_send(on).first(bytes));
  transport_.commit_send(on, {id_.index, phase_}, bytes);
}

}  // namespace millrace
