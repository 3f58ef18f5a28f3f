// The way to one device: its memory, and runs of its kernel. Internal to fpga/xrt.
//
//   const uint32_t input = link.allocate(4096);
//   link.write(input, 0, bytes);
//   PhaseRegisters registers = registers_of(PhaseCode::kForward, shape, flags, run);
//   registers.pointers[kSource] = input;                 // buffers stand for their addresses; 0: none
//   link.run(registers);
//   link.read(result, 0, bytes);                         // waits
//
// Everything but read and finish may return before it is done; what one call changes, later calls see. Used from one thread.
#pragma once

#include <cstdint>
#include <span>

#include "fpga/conv_ce/registers/register_map.h"

namespace millrace::xrt {

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;
  virtual uint32_t allocate(uint64_t bytes) = 0;
  virtual void release(uint32_t buffer) = 0;
  virtual void write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data) = 0;
  virtual void run(const PhaseRegisters& registers) = 0;
  virtual void read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data) = 0;
  virtual void finish() = 0;
};

}  // namespace millrace::xrt
