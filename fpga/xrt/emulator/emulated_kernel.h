// The kernel of an emulated device as its registers show it: ap_ctrl_hs, arguments, and a body that works beside the host.
//
//   EmulatedKernel kernel(make_phase_body("functional"), memory, kIdentity);
//   kernel.write(0, file);                       // a file whose first word has bit 0 set starts a run
//   while ((kernel.read(0) & 2) == 0) {}         // done is cleared by reading
//
// A run is done by a thread of the kernel's own, so that the host's transfers overlap with it. A start while it works is
// remembered and done next, with the registers of that moment, as hardware with a queue would.
// What the body fails with comes out of the next read or write.
// Limits: registers from 0 to kMapBytes; others are read as zero and not written. Internal to fpga/xrt.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "fpga/xrt/emulator/phase_body.h"

namespace millrace::xrt {

class EmulatedKernel {
 public:
  EmulatedKernel(std::unique_ptr<PhaseBody> body, DeviceMemory& memory, uint32_t identity);
  ~EmulatedKernel();
  EmulatedKernel(const EmulatedKernel&) = delete;
  EmulatedKernel& operator=(const EmulatedKernel&) = delete;

  void write(uint64_t offset, std::span<const uint8_t> bytes);
  uint32_t read(uint64_t offset);
  // Until nothing runs.
  void wait();

 private:
  void work();

  std::unique_ptr<PhaseBody> body_;
  DeviceMemory& memory_;
  std::vector<uint8_t> registers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PhaseRegisters> queue_;  // the one that runs in front
  size_t unseen_ = 0;                 // runs done that the host has not read of
  std::exception_ptr fault_;
  bool ends_ = false;
  std::thread worker_;
};

}  // namespace millrace::xrt
