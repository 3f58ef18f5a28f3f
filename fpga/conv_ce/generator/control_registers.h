// The host's side of a generated device, filled from the register map that host code, metadata and emulation share
// (fpga/conv_ce/registers/register_map.h): its SystemVerilog, and the list that people read. Internal to fpga/conv_ce.
//
//   write(folder / "rtl" / "control_registers.sv", control_registers_sv());
//   write(folder / "registers.txt", registers_text());
//
// The same for every device. Constants of the map that other modules need (the result's header) are values for their templates.
#pragma once

#include <string>

#include "fpga/common/generator/text_template.h"

namespace millrace {

std::string control_registers_sv();
std::string registers_text();

// $AT_CONTROL$, $AT_PHASE$, ..., $AT_WINDOW_DATA$: offsets as SystemVerilog has them, and what registers and headers hold.
TemplateValues register_values();

}  // namespace millrace
