// The forward pass of recurrent layers done by a device: what it needs is sent, one run makes it, what comes out is fetched.
//
//   const std::unique_ptr<RecurrenceEngine> engine = make_xrt_recurrence_engine(link, "FPGA in XRT's emulation");
//
// recurrence_block.h says what lies where. Parameters that the device has are not sent again. `link` is borrowed and outlives the engine.
// What the way back needs of a pass (its trace) the host computes itself: it goes back on the host. Internal to fpga/xrt.
#pragma once

#include <memory>
#include <string>

#include "fpga/recurrence/arithmetic/recurrence_engine.h"
#include "fpga/xrt/device/device_link.h"

namespace millrace::xrt {

std::unique_ptr<RecurrenceEngine> make_xrt_recurrence_engine(DeviceLink& link, std::string description);

}  // namespace millrace::xrt
