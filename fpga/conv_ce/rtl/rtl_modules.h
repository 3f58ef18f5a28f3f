// The engine's SystemVerilog sources, as they lie in fpga/conv_ce/rtl/modules, compiled in.
//
//   for (const RtlModule& module : rtl_modules()) write_file(folder / module.file, module.text);
#pragma once

#include <string_view>
#include <vector>

namespace millrace {

struct RtlModule {
  std::string_view file;  // "forward_engine.sv", of the module of that name
  std::string_view text;
};

// By name.
const std::vector<RtlModule>& rtl_modules();

}  // namespace millrace
