// millrace-xrt-device: the device behind XRT's software emulation. XRT's shim starts it, once per device.
//
// $MILLRACE_XRT_BODY names what computes (phase_body.h), "functional" where it is not set. $MILLRACE_XRT_PID_FILE is written
// with the process's number, for who watches over it.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/xrt/emulator/device_process.h"

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody is served without the host
  try {
    if (const char* file = std::getenv("MILLRACE_XRT_PID_FILE"); file != nullptr)
      millrace::write_atomically(file, fmt::format("{}", getpid()));
    millrace::xrt::DeviceProcessOptions options{.socket = millrace::xrt::socket_of_environment()};
    if (const char* body = std::getenv("MILLRACE_XRT_BODY"); body != nullptr) options.body = body;
    millrace::xrt::run_device_process(options);
    return 0;
  } catch (const millrace::Error& error) {
    fmt::print(stderr, "millrace-xrt-device: {}\n", error.what());
    return millrace::exit_status_of(error.code());
  }
}
