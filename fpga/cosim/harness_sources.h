// The files of fpga/cosim/harness, compiled in: what goes around the engines to make a library of them.
//
//   for (const HarnessSource& source : harness_sources()) write_file(folder / source.file, source.text);
#pragma once

#include <string_view>
#include <vector>

namespace millrace {

struct HarnessSource {
  std::string_view file;  // "engine_harness.sv"
  std::string_view text;
};

const std::vector<HarnessSource>& harness_sources();

}  // namespace millrace
