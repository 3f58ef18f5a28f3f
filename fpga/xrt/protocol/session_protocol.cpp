#include "fpga/xrt/protocol/session_protocol.h"

#include <cstring>

namespace millrace::xrt {

namespace {

struct Header {
  uint32_t call = 0;
  uint32_t padding = 0;
  uint64_t size = 0;
};
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

}  // namespace

bool send_message(const LocalSocket& socket, SessionCall call, std::span<const uint8_t> fields) {
  const Header header{.call = static_cast<uint32_t>(call), .padding = 0, .size = fields.size()};
  uint8_t bytes[sizeof(header)];
  std::memcpy(bytes, &header, sizeof(header));
  return socket.deliver(bytes) && socket.deliver(fields);
}

std::optional<SessionMessage> receive_message(const LocalSocket& socket) {
  uint8_t bytes[sizeof(Header)];
  if (!socket.receive(bytes)) return std::nullopt;
  Header header;
  std::memcpy(&header, bytes, sizeof(header));
  if (header.size > kMostBytes) return std::nullopt;
  SessionMessage message{static_cast<SessionCall>(header.call), std::vector<uint8_t>(header.size)};
  if (!socket.receive(message.fields)) return std::nullopt;
  return message;
}

}  // namespace millrace::xrt
