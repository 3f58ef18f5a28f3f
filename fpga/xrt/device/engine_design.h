// The design that our kernel is on a device: as an xclbin for the emulation, and as a check of a board's file. Internal to fpga/xrt.
//
//   save(engine_design(), folder / "engine.xclbin");
//   check_design(load_xclbin(path), path);          // kMismatch: which argument is not where the register map has it
#pragma once

#include <string_view>

#include "fpga/xrt/xclbin/xclbin_file.h"

namespace millrace::xrt {

Xclbin engine_design();
void check_design(const Xclbin& xclbin, std::string_view where);

}  // namespace millrace::xrt
