// The steps of recurrent layers done by a device, forward and back: what they need is sent, one run makes them, what comes out is fetched.
//
//   const std::unique_ptr<ChainEngine> engine = make_xrt_chain_engine(link, "FPGA in XRT's emulation");
//
// steps_block.h says what lies where. Weights that the device has are not sent again. The record of a run forward comes to the host and
// goes back with the errors. `link` is borrowed and outlives the engine. Internal to fpga/xrt.
#pragma once

#include <memory>
#include <string>

#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/xrt/device/device_link.h"

namespace millrace::xrt {

std::unique_ptr<ChainEngine> make_xrt_chain_engine(DeviceLink& link, std::string description);

}  // namespace millrace::xrt
