// A mini-batch on hardware that `millrace rtl` generated, driven through the same link, registers and result header as the phases of
// xrt_convolution_engine.h: parameters go to the device's memory, the ring's streams carry the samples, gradients come back.
//
//   MiniBatchDevice device(link, "device 3", /*gradients=*/9216, /*bytes_reached=*/80'199'680);
//   const std::vector<int32_t> gradients = device.run(parameters, /*samples=*/32);
//
// Parameters and gradients lie in the order of the generated README.md (memory_mover.sv); how many there are it says, too. `link` is
// borrowed, and its buffers end with it. `bytes_reached`: from the parameters on, where a
// device keeps more in its memory than what it is sent, as its README.md says. What the device already holds is not sent again. Fails with
// kUnavailable where it refuses, with its status. Internal to fpga/xrt.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fpga/xrt/device/device_link.h"

namespace millrace::xrt {

class MiniBatchDevice {
 public:
  MiniBatchDevice(DeviceLink& link, std::string description, size_t gradients, size_t bytes_reached = 0);
  MiniBatchDevice(const MiniBatchDevice&) = delete;
  MiniBatchDevice& operator=(const MiniBatchDevice&) = delete;

  std::vector<int32_t> run(std::span<const int16_t> parameters, int64_t samples);

 private:
  DeviceLink& link_;
  std::string description_;
  size_t gradients_, bytes_reached_;
  uint32_t run_ = 0;
  uint32_t parameters_ = 0, result_ = 0;  // buffers; 0: none yet
  std::vector<int16_t> held_;             // what the device has
};

}  // namespace millrace::xrt
