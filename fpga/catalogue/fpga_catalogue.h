// The FPGA boards that Millrace knows, as a catalogue document that travels inside the program.
//
//   const Catalogue boards = parse_catalogue(fpga_catalogue_text(), "fpga/catalogue");
//
// One .textproto per board, in this folder; a file added there is found by itself. Resources are those of the whole chip,
// rates are per direction. Values every board has (besides what its memories need):
//   lut ff lutram_lut bram36 uram dsp                       what engines are made of; lutram_lut: LUTs that can be memory
//   dsp_per_mac_16 dsp_per_mac_32 dsp_engine_share clock_hz what they do with it
//   transceivers transceiver_gbps link_gbps ring_ports      link_gbps: to one neighbour
//   pcie_bytes_per_second watts_idle watts_per_gops
// dram_* and hbm_* are left out where there is no such memory.
#pragma once

#include <string_view>

namespace millrace {

std::string_view fpga_catalogue_text();

}  // namespace millrace
