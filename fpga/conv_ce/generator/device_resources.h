// What the generated hardware of one device takes, by layer and module: DSP slices, block RAM, LUTs, flip-flops; beside what the
// plan reckons with.
//
//   for (const ModuleUse& use : device_resources(design)) fmt::print("{} {} {} DSP\n", use.layer, use.module, use.dsp);
//   write_atomically(folder / "resources.json", resources_json(hardware_use(design), plan));    // fpga/common/generator/resource_report.h
//
// DSP slices and blocks follow from how the modules are built (fpga/conv_ce/rtl/module_resources.h, which synthesis confirms).
// LUTs and flip-flops are projected from the planner's constants and are a rough guide. Streams'
// FIFOs, joiners and splitters lie in LUTs and are not counted one by one.
#pragma once

#include <string>
#include <vector>

#include "fpga/common/generator/resource_report.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// What follows the sum of a layer on the device that ends its group, whatever its engine.
struct MemoriesAfterSum {
  int64_t bram18 = 0;               // blocks of those that are never made of UltraRAM
  std::vector<MemoryShape> large;   // the others
  int64_t error_block_rows = 1;     // in which errors of the sum come
  int64_t dropout_cycles = 0;       // per sample
  std::vector<MemoryShape> before;  // of every part: errors of the map before that others read as well, which wait for each other
};
// With streams of so many lanes; of a layer divided by outputs or not, whichever takes more. Maps that wait at a join count where they are
// joined. Fails with kUnavailable on layers that no hardware is generated for.
MemoriesAfterSum memories_after_sum(const Graph& graph, const LayerGroup& group, int64_t lanes);

// In the order of the shards, then of the data.
std::vector<ModuleUse> device_resources(const DeviceDesign& design);

WeightsOnChip weights_planned_off_chip(const DeviceDesign& design);
// Both of these, for the reports.
HardwareUse hardware_use(const DeviceDesign& design);

}  // namespace millrace
