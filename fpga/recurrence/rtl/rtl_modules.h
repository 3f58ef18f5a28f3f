// The SystemVerilog of gates, cells and the tail behind an engine's multipliers, compiled in, and the table that they read.
//
//   for (const RtlModule& module : recurrence_rtl_modules()) write_file(folder / module.file, module.text);
//   write_file(folder / kGateTableFile, gate_table_text());
#pragma once

#include <string>

#include "fpga/common/rtl/rtl_modules.h"

namespace millrace {

const std::vector<RtlModule>& recurrence_rtl_modules();

// As $readmemh reads it; modules without a table read none.
inline constexpr std::string_view kGateTableFile = "sigmoid_table.hex";
std::string gate_table_text();

}  // namespace millrace
