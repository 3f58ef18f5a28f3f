// Writes the engine of chained elements of one direction of a layer's steps as a folder that simulates as it stands.
//
//   write_steps_engine("out/lstm1", hardware, layer, {.samples = 2, .steps = 3});
//   // out/lstm1/rtl/*.sv         the modules and millrace_pe_chain.sv, which sets their parameters and this layer's settings
//   // out/lstm1/images           U, and the projection behind it, in the order in which they are loaded, for F and, transposed, for E;
//   //                            biases; the table of gates
//   // out/lstm1/vectors          sums and errors as they come, what the functional model makes of them
//   // out/lstm1/testbench.sv     loads, a pass forward, loads, a pass back, with pauses; prints PASS or what differs
//
// For a board of several that share the steps, some of the layer's units: its rows and columns of the weights, and vectors of one step,
// whose state, of all units, is written before it. Of a layer that projects the top is told by `part` which of a step's products a pass is.
//
//   cd out/lstm1 && iverilog -g2012 -o testbench rtl/*.sv testbench.sv && vvp testbench
//
// What the engine is not built for is refused by name (engine_hardware.h); files there are replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "fpga/pe_chain/rtl/engine_hardware.h"

namespace millrace {

struct StepsTestbench {
  int64_t samples = 1;
  int64_t steps = 2;
  uint64_t seed = 1;
};

// Of those units, or of all.
void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const FixedRecurrent& layer,
                        const StepsTestbench& testbench = {}, const std::optional<UnitRange>& board = {});

}  // namespace millrace
