// Slices and blocks of the engine as it is built: what Yosys finds in its modules, exactly. Internal to fpga/sbe.
//
//   const BuiltResources built = built_resources(hardware_of(config, cell, forms));
//   built.dsp;                // 1,024 + 16 for the paper's engine
//
// A multiplier takes a slice; a tail unit of lstm four (the cell has 32 bits, which takes two), of gru three. Memories as they are
// reached, of exactly the depths that a batch needs. A table of the sigmoid takes four half blocks for each function of each unit.
// Planners ask resources.h, which also counts LUTs.
#pragma once

#include <cstdint>

#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

struct BuiltResources {
  int64_t dsp = 0;
  int64_t bram18 = 0;
  int64_t weights = 0, inputs = 0, hidden = 0, kept = 0, outputs = 0, sums = 0, tables = 0, projection = 0;  // shares of the blocks
};

BuiltResources built_resources(const SbeHardware& hardware);

}  // namespace millrace
