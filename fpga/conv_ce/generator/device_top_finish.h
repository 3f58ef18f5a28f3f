// The end of a device's top level: when it is done, and the host's window into its memories. Internal to fpga/conv_ce.
//
//   return text + map_text(design) + finish_text(design);       // device_top.cpp
//
// A pure function of the design.
#pragma once

#include <string>

#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

std::string finish_text(const DeviceDesign& design);

}  // namespace millrace
