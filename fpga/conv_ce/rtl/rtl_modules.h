// The SystemVerilog sources of a device of this engine: those in fpga/conv_ce/rtl/modules and the common ones, compiled in.
//
//   for (const RtlModule& module : rtl_modules()) write_file(folder / module.file, module.text);
#pragma once

#include "fpga/common/rtl/rtl_modules.h"

namespace millrace {

// By name.
const std::vector<RtlModule>& rtl_modules();

}  // namespace millrace
