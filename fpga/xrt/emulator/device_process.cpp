#include "fpga/xrt/emulator/device_process.h"

#include <cstdlib>

#include "core/base/error.h"
#include "fpga/xrt/protocol/local_socket.h"
#include "fpga/xrt/protocol/wire_format.h"

namespace millrace::xrt {

namespace {

constexpr size_t kCallHeader = 14, kReplyHeader = 9;
constexpr uint64_t kMostMessage = uint64_t{1} << 30;

}  // namespace

std::string socket_of_environment() {
  const char* user = std::getenv("USER");
  const char* name = std::getenv("EMULATION_SOCKETID");
  if (user == nullptr)
    fail(ErrorCode::kUsage,
         "$USER is not set: this program is started by XRT's software emulation, which says with it where its socket lies");
  return fmt::format("/tmp/{}/{}", user, name == nullptr ? "xcl_sock" : name);
}

void run_device_process(const DeviceProcessOptions& options) {
  DeviceProtocol protocol(make_phase_body(options.body), options.identity);
  const LocalSocket host = LocalSocket::connected_to(options.socket, options.connect_seconds);
  uint8_t header[kCallHeader];
  std::vector<uint8_t> message;
  while (!protocol.closed() && host.receive(header)) {
    uint64_t size = 0;
    uint32_t call = 0;
    WireReader reader(header, "the header of a call of XRT's shim");
    while (reader.next()) {
      if (reader.field() == 1) size = reader.number();
      if (reader.field() == 2) call = static_cast<uint32_t>(reader.number());
    }
    if (size > kMostMessage) fail(ErrorCode::kMalformed, "a call of XRT's shim of {} bytes", size);
    message.resize(size);
    if (!host.receive(message)) return;
    const std::vector<uint8_t> answer = protocol.reply_to(call, message);
    WireWriter reply;
    reply.fixed64(1, answer.size());
    std::vector<uint8_t> bytes = reply.take();
    bytes.resize(kReplyHeader);
    bytes.insert(bytes.end(), answer.begin(), answer.end());
    if (!host.deliver(bytes)) return;
  }
}

}  // namespace millrace::xrt
