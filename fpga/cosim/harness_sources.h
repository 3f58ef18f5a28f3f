// The files of fpga/cosim/harness, compiled in: what goes around the engines to make a library of them.
//
//   for (const HarnessSource& source : harness_sources()) write_file(folder / source.file, source.text);
#pragma once

#include <string_view>
#include <vector>

namespace millrace {

struct HarnessSource {
  std::string_view file;  // "fpga/cosim/harness/engine_harness.sv": as the sources include each other
  std::string_view text;
};

const std::vector<HarnessSource>& harness_sources();        // of conv_ce
const std::vector<HarnessSource>& sbe_harness_sources();    // of sbe
const std::vector<HarnessSource>& steps_harness_sources();  // of pe_chain

}  // namespace millrace
