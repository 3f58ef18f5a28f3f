// SystemVerilog sources, as they lie in a folder `modules`, compiled in: those that every engine may use.
//
//   for (const RtlModule& module : with_common_modules(own)) write_file(folder / module.file, module.text);
//
// An engine has a list of its own beside these (fpga/conv_ce/rtl/rtl_modules.h).
#pragma once

#include <string_view>
#include <vector>

namespace millrace {

struct RtlModule {
  std::string_view file;  // "stream_fifo.sv", of the module of that name
  std::string_view text;
};

// By name.
const std::vector<RtlModule>& common_rtl_modules();
// An engine's own modules and the common ones, by name.
std::vector<RtlModule> with_common_modules(const std::vector<RtlModule>& own);

}  // namespace millrace
