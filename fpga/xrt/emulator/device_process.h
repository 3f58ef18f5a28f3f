// The device process of XRT's software emulation: XRT's shim starts it where AMD's tools would put theirs, and it answers the
// shim's calls over a Unix socket. Internal to fpga/xrt.
//
//   return run_device_process({.socket = socket_of_environment(), .body = "functional"});   // until the host closes
//
// A call is a header of 14 bytes {fixed64 size = 1; fixed32 call = 2} and a message of that size; the reply's header is
// padded to 9 bytes. Messages are proto2; fields are named where they are read. Whatever arrives, nothing is read past its
// end: a message that does not follow the format, and a call that is not known, end the process with a message that says
// so. DeviceProtocol answers the messages alone, so that it can be tested without a socket.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fpga/xrt/emulator/emulated_kernel.h"

namespace millrace::xrt {

class DeviceProtocol {
 public:
  DeviceProtocol(std::unique_ptr<PhaseBody> body, uint32_t identity, uint64_t memory_bytes = uint64_t{16} << 30)
      : memory_(memory_bytes), kernel_(std::move(body), memory_, identity) {}

  // The reply's message. Fails with kMalformed, naming the call.
  std::vector<uint8_t> reply_to(uint32_t call, std::span<const uint8_t> message);
  bool closed() const { return closed_; }

 private:
  DeviceMemory memory_;
  EmulatedKernel kernel_;
  bool closed_ = false;
};

struct DeviceProcessOptions {
  std::string socket;
  std::string body = "functional";
  uint32_t identity = kIdentity;
  int connect_seconds = 20;
};

// The socket that the shim waits at, from $USER and $EMULATION_SOCKETID; kUsage where they are not set.
std::string socket_of_environment();
// Returns when the host has closed the device or is gone.
void run_device_process(const DeviceProcessOptions& options);

}  // namespace millrace::xrt
