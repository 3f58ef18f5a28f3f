// What a generated engine of chained elements is loaded with and tested against, of one layer and direction. Internal to
// fpga/pe_chain/generator.
//
//   const StepsPlace place = write_steps_vectors(folder, /*prefix=*/"", hardware, layer, testbench, {0, layer.hidden});
//   place.passes;                                       // of the testbench, each with files vectors/NAME_in.hex and NAME_out.hex
//
// Files are images/PREFIXweights_forward.hex and so on. The layer is borrowed for the call.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "fpga/pe_chain/generator/steps_files.h"
#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

// A pass of the testbench.
struct StepsPass {
  std::string name;
  bool back = false;
  int64_t part = 0;         // of a step, as StepSettings has it
  int64_t state_words = 0;  // written before it
  bool keeps = false;       // and what units keep
  int64_t in = 0, out = 0;  // words
};

struct StepsPlace {
  std::string prefix;
  std::array<StepSettings, 2> settings;  // forward, back
  std::array<PassShifts, 2> shifts;
  bool whole = true;                      // else a board's of several
  int64_t steps = 1;                      // of a pass
  std::array<int64_t, 2> beats = {0, 0};  // of weights
  std::vector<StepsPass> passes = {};
};

StepsPlace write_steps_vectors(const std::filesystem::path& folder, const std::string& prefix, const PeChainHardware& hardware,
                               const FixedRecurrent& layer, const StepsTestbench& testbench, const UnitRange& board);

}  // namespace millrace
