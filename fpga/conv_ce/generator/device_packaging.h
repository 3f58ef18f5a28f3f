// What the vendor's tools want beside a device's RTL: the kernel's metadata, a packaging script, and how it is linked on a board.
//
//   write(folder / "kernel.xml", kernel_xml(design));
//
// Kernel, instance, arguments and their places are those of the register map that the host's code looks for
// (fpga/xrt/registers/register_map.h), on every device alike.
// Limits: after the vendor's documentation; no vendor tool has seen these files.
#pragma once

#include <string>

#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

std::string kernel_xml(const DeviceDesign& design);
std::string package_tcl(const DeviceDesign& design);
std::string connectivity(const DeviceDesign& design);

}  // namespace millrace
