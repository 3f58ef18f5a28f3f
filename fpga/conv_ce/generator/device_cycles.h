// How many cycles a generated device takes for a sample in the steady state: its own cycle model, module by module.
//
//   const StageCycles slowest = slowest_stage(device_cycles(design));
//   fmt::print("{} of {}: {} cycles\n", slowest.stage, slowest.layer, slowest.cycles);
//
// All modules run side by side and are joined by streams, so a device takes as long for a sample as its slowest module: an engine
// (cycle_model.h), what follows a sum and its way back, or a stream at one beat per cycle.
// Samples follow each other without a gap; the memory outside and the links are not part of it.
// Confirmed by whole images in simulation, within 2%; maps of 2 x 2 pixels took a fifth longer, as pipelines run empty between them.
// It is not known here how late errors come back, and that memories are full by then: ring_waiting.h times whole rings.
// A pure function of the design. Internal to fpga/conv_ce.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

struct StageCycles {
  std::string layer;
  std::string stage;  // "FP", "EB", "PG", "pooling", "un-pooling", "row sorter", "adapter of sums"; "activations" and "sums": streams
  int64_t cycles = 0;
};

// In the order of the shards.
std::vector<StageCycles> device_cycles(const DeviceDesign& design);
// Of a unit behind a sum; 0 where it drops nothing.
int64_t cycles_of_dropout(const ShardDesign& unit);
// The first of the slowest; `stages` is not empty.
StageCycles slowest_stage(const std::vector<StageCycles>& stages);

}  // namespace millrace
