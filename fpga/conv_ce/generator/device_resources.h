// What the generated hardware of one device takes, by layer and module: DSP slices, block RAM, LUTs, flip-flops; beside what the
// plan reckons with.
//
//   for (const ModuleUse& use : device_resources(design)) fmt::print("{} {} {} DSP\n", use.layer, use.module, use.dsp);
//   write_atomically(folder / "resources.json", resources_json(design, plan));
//   fmt::print("{}", resources_table(design, plan));
//
// DSP slices and blocks follow from how the modules are built (fpga/conv_ce/rtl/module_resources.h, which synthesis confirms).
// LUTs and flip-flops are projected from the planner's constants and are a rough guide. Nothing generated uses UltraRAM. Streams'
// FIFOs, joiners and splitters lie in LUTs and are not counted one by one.
#pragma once

#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

struct ModuleUse {
  std::string layer;
  std::string module;  // of fpga/conv_ce/rtl/modules: "forward_engine", "deep_fifo (Act-RAM)", ...
  double dsp = 0;
  double bram18 = 0;  // halves of a BRAM36
  double luts = 0;
  double flip_flops = 0;
};

// In the order of the shards, then of the data.
std::vector<ModuleUse> device_resources(const DeviceDesign& design);

// All modules, sums by layer and of the device, the plan's amounts by layer.
std::string resources_json(const DeviceDesign& design, const Plan& plan);
std::string resources_table(const DeviceDesign& design, const Plan& plan);
// "11522 BRAM36 of 1470": all that the board lacks, as far as the plan knows the board; empty: nothing.
std::string what_does_not_fit(const DeviceDesign& design, const Plan& plan);

// A plan may keep weights in the board's own memory; what is generated has all of them on the chip.
struct WeightsOnChip {
  std::string layers;          // "fc1, fc2": whose weights the plan keeps off chip; empty: none
  int64_t off_chip_bytes = 0;  // as the plan has it, with gradients and the optimizer's state
  double bram36 = 0;           // what the same layers' weights and gradients take as they are generated
};
WeightsOnChip weights_planned_off_chip(const DeviceDesign& design);

}  // namespace millrace
