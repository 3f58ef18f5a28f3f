#include "deploy/devices/hardware.h"

#include "core/base/check.h"

namespace millrace {

std::string_view name_of(Hardware hardware) {
  switch (hardware) {
    case Hardware::kFpga: return "fpga";
    case Hardware::kGpu: return "gpu";
    case Hardware::kCpu: return "cpu";
  }
  MILLRACE_CHECK(false, "hardware {}", static_cast<int>(hardware));
  return "";
}

std::optional<Hardware> hardware_from(std::string_view word) {
  for (const Hardware hardware : kAllHardware)
    if (name_of(hardware) == word) return hardware;
  return std::nullopt;
}

}  // namespace millrace
