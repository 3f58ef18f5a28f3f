// What the vendor's tools want beside a device's RTL: the kernel's metadata, a packaging script, and how it is linked on a board.
//
//   write(folder / "kernel.xml", kernel_xml({.kernel = "millrace_conv_ce", ..., .arguments = xrt::kernel_arguments()}));
//
// Kernel, instance, arguments and their places are those of the engine's register map, which the host's code looks for, on every
// device of the engine alike.
// Limits: after the vendor's documentation; no vendor tool has seen these files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fpga/common/registers/kernel_registers.h"

namespace millrace {

// A port of AXI4-Stream; `upstream`: its other end is the board before.
struct PackagedStream {
  std::string name;
  bool upstream = false;
};

// A port of AXI4 beside m_axi_gmem, to the same memory.
struct PackagedMemory {
  std::string name;
  int64_t bits = 64;
};

struct PackagedKernel {
  std::string_view kernel;    // as the host knows it
  std::string_view instance;  // on the board
  std::string module;         // the RTL's top level
  std::string board;
  int64_t stream_bits = 0;
  std::vector<PackagedStream> inputs = {};
  std::vector<PackagedStream> outputs = {};
  std::vector<PackagedMemory> memories = {};
  std::vector<xrt::KernelArgument> arguments = {};
};

std::string kernel_xml(const PackagedKernel& kernel);
std::string package_tcl(const PackagedKernel& kernel);
std::string connectivity(const PackagedKernel& kernel);

}  // namespace millrace
