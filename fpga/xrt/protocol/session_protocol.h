// What a rank and its XRT session say to each other. Internal to fpga/xrt.
//
//   send_message(socket, SessionCall::kRun, run_message);
//   const auto reply = receive_message(socket);      // nothing where the other end is gone
//
// The session is a process of its own that alone links XRT: XRT's emulation leaves the process, kills its group, changes
// signals and prints as it likes, and none of that reaches a rank. A message is a header {call, size} and fields in the wire
// format; numbers in brackets are the fields'.
//   kOpen      xclbin (1), board (2), emulated (3), body (4), device program (5), folder (6), seconds (7)
//              -> kReply: description (1), process of the emulated device or 0 (2), identity register (3)
//   kAllocate  buffer (1), bytes (2), pointer argument it is for (3)
//   kRelease   buffer (1)
//   kWrite     buffer (1), offset (2), data (3)
//   kRun       scalars (1, 32 bits each), buffers by pointer (2, 32 bits each; 0: none)
//   kRead      buffer (1), offset (2), bytes (3)    -> kReply: data (1)
//   kFinish                                         -> kReply, when everything before is done
// Only kOpen, kRead and kFinish are answered; the others are done in order while the rank goes on. A run overlaps with
// transfers of buffers that it does not use. Anything that goes wrong is answered to the next call that waits, by kFailed:
// error code (1), message (2); the session then ends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "fpga/xrt/protocol/local_socket.h"

namespace millrace::xrt {

// What the session, XRT and the emulated device print, in the session's folder.
inline constexpr const char* kSessionLog = "session.log";

enum class SessionCall : uint32_t { kOpen = 1, kAllocate, kRelease, kWrite, kRun, kRead, kFinish, kReply, kFailed };

struct SessionMessage {
  SessionCall call = SessionCall::kReply;
  std::vector<uint8_t> fields;
};

bool send_message(const LocalSocket& socket, SessionCall call, std::span<const uint8_t> fields);
std::optional<SessionMessage> receive_message(const LocalSocket& socket);

}  // namespace millrace::xrt
