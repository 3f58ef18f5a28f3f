// What stands where the FPGA's logic would: it does one phase at a time on the device's memory.
//
//   const std::unique_ptr<PhaseBody> body = make_phase_body("functional");
//   body->run(registers, memory);                // the result's header says how it went
//
// "functional" is phase_model.h. Another body, such as simulated RTL, is added by implementing PhaseBody and one entry in
// phase_bodies(). Nothing that a host writes makes a body fail: bad shapes and addresses are statuses of the result, and a
// result that cannot be written is lost, which the host notices by its run number.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fpga/xrt/emulator/device_memory.h"
#include "fpga/xrt/registers/register_map.h"

namespace millrace::xrt {

class PhaseBody {
 public:
  virtual ~PhaseBody() = default;
  virtual std::string description() const = 0;
  virtual void run(const PhaseRegisters& registers, DeviceMemory& memory) = 0;
};

std::vector<std::string> phase_bodies();
// Fails with kUsage and the nearest name.
std::unique_ptr<PhaseBody> make_phase_body(std::string_view name);

}  // namespace millrace::xrt
