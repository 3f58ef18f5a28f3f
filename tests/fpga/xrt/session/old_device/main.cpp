// A device process whose kernel has another register map than this version's: $MILLRACE_XRT_BODY is its identity register.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/files.h"
#include "fpga/xrt/emulator/device_process.h"

int main() {
  millrace::write_atomically(std::getenv("MILLRACE_XRT_PID_FILE"), fmt::format("{}", getpid()));
  millrace::xrt::run_device_process({.socket = millrace::xrt::socket_of_environment(),
                                     .identity = static_cast<uint32_t>(std::strtoul(std::getenv("MILLRACE_XRT_BODY"), nullptr, 0))});
}
