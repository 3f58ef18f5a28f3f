// The words of the transport's users: messages of flows, out-of-band messages, what one can wait for, and counts.
//
//   transport.commit_send(flow, {.index = s, .chunk = c}, bytes);
//   transport.wait(std::array{Interest{Want::kMessage, flow, {s, c}}, Interest{Want::kCredit, other, {s, c}}});
//
// Plain values; a payload's span is good until the message is released.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "transport/streams/clock.h"

namespace millrace {

// Which of a flow's messages: micro-batch and, where time is cut, the chunk of it. For names and checks; order is the flow's.
struct MessageId {
  int64_t index = 0;
  int32_t chunk = -1;
  bool operator==(const MessageId&) const = default;
};

struct Message {
  MessageId id;
  std::span<const std::byte> payload;
};

enum class Want : uint8_t {
  kMessage,  // a message of the flow has arrived
  kCredit,   // a message of the flow can be sent
  kControl,  // a control message of the kind has arrived
};

struct Interest {
  Want want = Want::kMessage;
  int64_t flow = -1;
  MessageId id = {};  // of the message waited for: names it in errors
  uint32_t control_kind = 0;
};

struct WaitLimits {
  // Return without a result after so long, instead of failing at the deadline.
  std::optional<Nanoseconds> at_most = std::nullopt;
  // Return without a result once this is set (by a signal handler, say).
  const std::atomic<bool>* interrupt = nullptr;
  // However long it takes, as long as the neighbours show signs of life: for those who have nothing more to do themselves.
  bool while_alive = false;
};

// Small out-of-band messages between any two ranks; kinds below kFirstReservedKind are the user's to define.
struct ControlMessage {
  int64_t source = 0;  // a rank
  uint32_t kind = 0;
  std::vector<std::byte> payload;
};
inline constexpr int64_t kEveryRank = -1;
inline constexpr uint32_t kFirstReservedKind = 0x80000000;

struct Count {
  int64_t messages = 0;
  int64_t bytes = 0;  // of payloads
  Count& operator+=(const Count& other) {
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
  bool operator==(const Count&) const = default;
};
struct FlowCounters {
  Count sent;
  Count received;
  FlowCounters& operator+=(const FlowCounters& other) {
    sent += other.sent;
    received += other.received;
    return *this;
  }
  bool operator==(const FlowCounters&) const = default;
};

}  // namespace millrace
