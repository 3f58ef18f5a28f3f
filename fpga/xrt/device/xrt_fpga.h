// A device of the ring on an FPGA behind XRT: a board, or XRT's software emulation with a device process of ours.
//
//   std::unique_ptr<EmulatedFpga> device = make_xrt_fpga({.emulated = true});
//
// Everything that is not a convolution's phase, a recurrent layer's forward pass or its steps is what emulated_fpga.h says; those are runs
// of the kernel that register_map.h describes. The numbers are those of the functional model, bit by bit, in the emulation; a board's are
// what its design makes them, and no board has been tried. Every device has an XRT session and, when emulated, a device process of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "fpga/emulated/emulated_fpga.h"

namespace millrace {

struct XrtFpgaOptions {
  bool emulated = true;
  uint32_t board = 0;                    // of those that XRT lists
  std::filesystem::path xclbin = {};     // a board's design
  std::string body = "functional";       // of the emulated device: phase_body.h
  std::string plan = {};                 // text of the plan that an rtl body is of: its name is then rtl:plan.textproto#DEVICE
  size_t piece_bytes = size_t{1} << 20;  // of a transfer that overlaps with computing
  int seconds = 120;                     // for one answer of XRT
  // Empty: beside the running program.
  std::filesystem::path session_program = {};
  std::filesystem::path device_program = {};
};

// Fails with kUnavailable, saying what is missing and what brings it; kMalformed or kMismatch where the xclbin is no good.
std::unique_ptr<EmulatedFpga> make_xrt_fpga(const XrtFpgaOptions& options);

// A program that was built or installed with this one; empty where there is none.
std::filesystem::path program_beside_this(const std::string& name);

// What there is for XRT on this machine and in this build.
struct XrtFindings {
  std::string runtime;          // the file of XRT's library; empty: none
  std::string shim;             // of software emulation; empty: none
  std::string session_program;  // empty: this build has none
  std::string device_program;
  std::vector<std::string> boards;  // PCI addresses that XRT's driver holds
};
XrtFindings find_xrt();

}  // namespace millrace
