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
#include <string>
#include <vector>

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

// A layer and direction whose steps an engine makes, with its weights loaded before each pass. Borrowed.
struct ServedSteps {
  std::string name;
  const FixedRecurrent* layer = nullptr;
  std::optional<UnitRange> board = {};
  int64_t steps = 0;  // of its passes in the testbench; 0: as that says
};
// One engine for several layers of one cell and form of gates, such as the places of a card: the top is told whose settings to take
// (`place`), and files of the second begin with place1_. Fails with kUsage on other cells.
void write_steps_engine(const std::filesystem::path& folder, const PeChainHardware& hardware, const std::vector<ServedSteps>& served,
                        const StepsTestbench& testbench);
// An engine that holds what each of the two holds, of as many elements as either.
PeChainHardware engine_for_all(const PeChainHardware& one, const PeChainHardware& other);

}  // namespace millrace
