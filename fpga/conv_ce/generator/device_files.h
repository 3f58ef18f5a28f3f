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

namespace millrace {

struct DeviceFileOptions {
  int64_t test_rows = 0;  // 0: as few as leave every layer something to do
  int64_t test_samples = 2;
  uint64_t seed = 1;
};

struct DeviceFiles {
  std::vector<std::string> names;
  int64_t test_rows = 0;
  int64_t bytes = 0;
};

DeviceFiles write_device(const DeviceDesign& design, const std::filesystem::path& folder, const DeviceFileOptions& options);

}  // namespace millrace
