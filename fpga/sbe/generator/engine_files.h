// Writes one layer's engine of blocked columns as a folder that simulates and synthesises as it stands.
//
//   write_engine("out/lstm1", config, layer, {.run = run, .x = x, .batches = 1});
//   // out/lstm1/rtl/*.sv        the modules and millrace_sbe.sv, which sets their parameters and this layer's settings
//   // out/lstm1/testbench.sv    memory with latency and pauses, streams with pauses, comparison; prints PASS or what differs
//   // out/lstm1/images          weights as they lie in the memory outside, biases, the table of gates
//   // out/lstm1/vectors         x as it comes, h as the functional model has it, lengths
//
//   cd out/lstm1 && iverilog -g2012 -o testbench rtl/*.sv testbench.sv && vvp testbench
//
// What the engine cannot be built for is refused by name (engine_hardware.h); files there are replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

struct EngineVectors {
  RecurrentRun run;
  std::vector<int16_t> x;  // [batch][stream][step][input]; each batch begins with zeros
  int64_t batches = 1;
  std::vector<int32_t> sums = {};  // in place of x where they arrive: [batch][stream][step][row]
};

struct EngineTestbench {
  int64_t memory_latency = 100;
  int64_t seed = 1;
};

void write_engine(const std::filesystem::path& folder, const SbeConfig& config, const FixedRecurrent& layer, const EngineVectors& vectors,
                  const EngineTestbench& testbench = {});

}  // namespace millrace
