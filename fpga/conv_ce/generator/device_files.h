// Writes the folder of one device: RTL, memory images, testbench with its vectors, Makefile, packaging, README.
//
//   const DeviceFiles written = write_device(design, "rtl/device_3", {.test_rows = 0});
//   written.test_rows;    // rows of the testbench's maps
//
// The same design gives the same bytes. Files of the same names are replaced; nothing else in the folder is touched.
// Limits: kernel.xml, package.tcl and connectivity.cfg follow the vendor's documentation; no vendor tool has seen them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/generator/device_vectors.h"

namespace millrace {

struct DeviceFileOptions {
  int64_t test_rows = 0;     // 0: as few as leave every layer something to do
  int64_t test_samples = 2;  // at least; no more than a mini-batch
  uint64_t seed = 1;
  std::string homes = {};  // text_of(parameter_homes()): the README says it too; empty: every parameter is stored where it is used
  std::string lacks = {};  // what_does_not_fit(): the README says it first; empty: it fits, or nobody knows
};

struct DeviceFiles {
  std::vector<std::string> names;
  int64_t test_rows = 0;
  int64_t bytes = 0;
};

// What lies in the memory outside, in memory_mover.sv's order: the parameters that a device reads before a mini-batch, and the
// gradients that it writes behind one, with all ones where they mean something.
std::vector<int16_t> outside_parameters(const DeviceDesign& design);
struct OutsideGradients {
  std::vector<int32_t> values, mask;
};
OutsideGradients outside_gradients(const DeviceDesign& design, const DeviceVectors& vectors);

DeviceFiles write_device(const DeviceDesign& design, const std::filesystem::path& folder, const DeviceFileOptions& options);

}  // namespace millrace
