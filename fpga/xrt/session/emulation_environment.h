// What XRT's software emulation wants to find, laid out in a private folder that goes away with the session.
//
//   enter_emulation({.folder = "/tmp/millrace-xrt-Ab12Cd", .device_program = "/usr/bin/millrace-xrt-device", .body = "functional"});
//   xrt::device device(0);                      // now emulated
//
// Links stand for the trees of XRT and Vitis that the shim expects, emconfig.json describes one device, and the environment
// of this process points to them; the working folder becomes the private one, where the shim leaves its own files. The
// folder lies directly in /tmp, where the shim puts its socket.
// Fails with kUnavailable where XRT's shim or the device program is missing, naming the package or the file. Internal to
// fpga/xrt/session.
#pragma once

#include <filesystem>
#include <string>

namespace millrace::xrt {

struct EmulationOptions {
  std::filesystem::path folder;
  std::filesystem::path device_program;
  std::string body;
};

// The file of the running device process's number, in the folder.
inline constexpr const char* kPidFile = "device.pid";

void enter_emulation(const EmulationOptions& options);
// For a board where nobody has set XILINX_XRT: XRT finds its own libraries by it, and Debian's lie elsewhere.
void enter_board(const std::filesystem::path& folder);

}  // namespace millrace::xrt
