// A device that is sent calls: 1 byte for the call, 2 for the message's size, the message; and again.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "fpga/xrt/emulator/device_process.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace::xrt;
  DeviceProtocol device(make_phase_body("functional"), kIdentity, /*memory_bytes=*/1 << 16);
  std::span<const uint8_t> rest(data, size);
  while (rest.size() >= 3 && !device.closed()) {
    const uint32_t call = rest[0];
    const size_t length = std::min(size_t{rest[1]} | size_t{rest[2]} << 8, rest.size() - 3);
    try {
      device.reply_to(call, rest.subspan(3, length));
    } catch (const millrace::Error&) {
    }
    rest = rest.subspan(3 + length);
  }
  return 0;
}
