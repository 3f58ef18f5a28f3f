// What of a device's top level differs where a shard's weights lie in the memory outside: its ports there, its streamers, and PG's samples
// side by side. Internal to device_top.cpp.
//
//   ports += stream_ports(design);
//   add_weights(design, index, values);       // $KERNELS$, $GRADIENTS$ and where PG's streams come from, on the chip or not
//
// Pure functions of the design.
#pragma once

#include <string>

#include "fpga/common/generator/text_template.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

std::string stream_ports(const DeviceDesign& design);
void add_weights(const DeviceDesign& design, size_t index, TemplateValues& values);
// Answers of the memory outside that were errors.
std::string stream_faults(const DeviceDesign& design);

}  // namespace millrace
