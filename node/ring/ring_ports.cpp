#include "node/ring/ring_ports.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
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

// A payload whose numbers travel as the device has them.
ConstHostNumbers numbers_in(ElementType wire, std::span<const std::byte> payload, int64_t count) {
  const auto elements = to_size(count);
  if (wire == ElementType::kFloat64) return std::span(reinterpret_cast<const double*>(payload.data()), elements);
  return std::span(reinterpret_cast<const float*>(payload.data()), elements);
}
HostNumbers numbers_in(ElementType wire, std::span<std::byte> payload, int64_t count) {
  const auto elements = to_size(count);
  if (wire == ElementType::kFloat64) return std::span(reinterpret_cast<double*>(payload.data()), elements);
  return std::span(reinterpret_cast<float*>(payload.data()), elements);
}
// As hosts hand numbers to a device.
ElementType host_type_of(const Device& device) {
  return device.compute_type() == ElementType::kFloat64 ? ElementType::kFloat64 : ElementType::kFloat32;
}

DeviceMessages& own_messages_of(Device& device) {
  DeviceMessages* const messages = messages_of(device);
  MILLRACE_CHECK(messages != nullptr, "{} has a flow in memory of its own, and no such memory", device.description());
  return *messages;
}

}  // namespace

void RingPorts::mark(int64_t flow, std::string_view what) {
  if (trace_ == nullptr) return;
  const Flow& spec = item(plan_.flows, flow);
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
  const ElementType wire = item(plan_.flows, flow).wire;
  const int64_t on = flow_for(flow);
  const int64_t elements = elements_of(tensor, channels, steps);
  const std::span<const std::byte> payload = transport_.begin_receive(on, id_, wire_bytes(wire, elements));
  const auto write = [&](ConstHostNumbers numbers) {
    if (all_steps(tensor, steps)) return device.write(tensor, channels, numbers);
    device.write_rows(tensor, channels, steps, numbers);
  };
  if (item(transport_.table().flows, on).device_memory) {
    own_messages_of(device).unpack(tensor, channels, steps, wire, payload.data());
  } else if (wire == host_type_of(device)) {
    write(numbers_in(wire, payload, elements));
  } else {
    const HostNumbers numbers = buffer_.of(device.compute_type(), elements);
    unpack(wire, payload, numbers);
    write(numbers);
  }
  // The device has taken the numbers: a write() does before it returns, and in its own memory the wire keeps the order.
  transport_.release(on);
  mark(flow, "received");
}

void RingPorts::send(int64_t flow, Device& device, const Tensor& tensor, ChannelRange channels, StepRange steps) {
  const ElementType wire = item(plan_.flows, flow).wire;
  const int64_t on = flow_for(flow);
  const int64_t elements = elements_of(tensor, channels, steps);
  const size_t bytes = wire_bytes(wire, elements);
  await_due();
  const std::span<std::byte> payload = transport_.begin_send(on).first(bytes);
  const auto read = [&](HostNumbers numbers) {
    if (all_steps(tensor, steps)) return device.read(tensor, channels, numbers);
    device.read_rows(tensor, channels, steps, numbers);
  };
  if (item(transport_.table().flows, on).device_memory) {
    own_messages_of(device).pack(tensor, channels, steps, wire, payload.data());
  } else if (wire == host_type_of(device)) {
    read(numbers_in(wire, payload, elements));
  } else {
    const HostNumbers numbers = buffer_.of(device.compute_type(), elements);
    read(numbers);
    pack(wire, numbers, payload);
  }
  transport_.commit_send(on, id_, bytes);
  mark(flow, "sent");
}

void RingPorts::receive_row(int64_t flow, std::span<double> row) {
  const std::vector<std::byte> payload = states_.take(flow_for(flow), {id_.index, phase_ - 1});
  unpack(item(plan_.flows, flow).wire, payload, row);
}

void RingPorts::send_row(int64_t flow, std::span<const double> row) {
  const ElementType wire = item(plan_.flows, flow).wire;
  const int64_t on = flow_for(flow);
  const size_t bytes = wire_bytes(wire, static_cast<int64_t>(row.size()));
  pack(wire, row, transport_.begin_send(on).first(bytes));
  transport_.commit_send(on, {id_.index, phase_}, bytes);
}

}  // namespace millrace
