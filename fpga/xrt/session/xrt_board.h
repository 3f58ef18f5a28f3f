// A board, or XRT's emulation of one, with our kernel on it.
//
//   XrtBoard board("engine.xclbin", /*index=*/0, /*emulated=*/true, /*seconds=*/60);
//   board.allocate(1, 4096, kSource);
//   board.write(1, 0, data);
//   board.run(scalars, buffers);               // returns when it is started
//   board.read(5, 0, result);                  // waits for the runs that use buffer 5
//
// Two runs are under way at most: one works, the next one waits in XRT's queue. A transfer waits for the runs that use its
// buffer and for no other. The same code for boards and emulation. Fails with kUnavailable where XRT refuses, with its
// words, and with kTimeout where a run takes longer than `seconds`. Internal to fpga/xrt/session.
#pragma once

#include <xrt/xrt_bo.h>
#include <xrt/xrt_device.h>
#include <xrt/xrt_kernel.h>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "fpga/conv_ce/registers/register_map.h"

namespace millrace::xrt {

class XrtBoard {
 public:
  XrtBoard(const std::string& xclbin, uint32_t index, bool emulated, int seconds);

  // Of the register map that the device implements.
  uint32_t identity() const { return identity_; }
  std::string name() const { return name_; }

  void allocate(uint32_t buffer, uint64_t bytes, size_t pointer);
  void release(uint32_t buffer);
  void write(uint32_t buffer, uint64_t offset, std::span<const uint8_t> data);
  void read(uint32_t buffer, uint64_t offset, std::span<uint8_t> data);
  void run(std::span<const uint32_t, kScalarCount> scalars, std::span<const uint32_t, kPointerCount> buffers);
  void finish();

 private:
  struct Buffer {
    ::xrt::bo object;
    uint64_t last_run = 0;  // that uses it
  };
  struct UnderWay {
    ::xrt::run run;
    uint64_t number = 0;  // 0: free
  };

  Buffer& buffer_of(uint32_t number, uint64_t offset, uint64_t bytes);
  ert_cmd_state ended_state(::xrt::run& run) const;
  // Until run `number` and all before are done.
  void wait_for(uint64_t number);

  ::xrt::device device_;
  ::xrt::kernel kernel_;
  std::string name_;
  uint32_t identity_ = 0;
  bool emulated_;
  int seconds_;
  std::map<uint32_t, Buffer> buffers_;
  std::array<UnderWay, 2> runs_;
  uint64_t started_ = 0, finished_ = 0;
};

}  // namespace millrace::xrt
