// What generated hardware takes beside what its plan reckons with and what the board has, whatever its engine.
//
//   std::vector<ModuleUse> modules = {memory_use("conv1", "deep_fifo (Act-RAM)", {.width = 64, .depth = 1000})};
//   write_atomically(folder / "resources.json", resources_json({.board = "vc709", .layers = {"conv1"}, .modules = modules}, plan));
//   if (const std::string lacks = what_does_not_fit(use, plan); !lacks.empty()) ...
//
// LUTs and flip-flops are projected from the planner's constants and are a rough guide.
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "fpga/common/cost/bram_packing.h"

namespace millrace {

struct ModuleUse {
  std::string layer;
  std::string module;  // "forward_engine", "deep_fifo (Act-RAM)", ...
  double dsp = 0;
  double bram18 = 0;  // halves of a BRAM36
  double luts = 0;
  double flip_flops = 0;
  double urams = 0;
};

ModuleUse& operator+=(ModuleUse& sum, const ModuleUse& use);
// Of LUTs where it is shallow, else of block RAM, but for the bits of its words that the generator puts into UltraRAM.
ModuleUse memory_use(const std::string& layer, const std::string& module, const MemoryShape& memory, int64_t ultra_bits = 0);

// A plan may keep weights in the board's own memory; what is generated streams them from there, or has them on the chip.
struct WeightsOnChip {
  std::string layers;          // "fc1, fc2": whose weights the plan keeps off chip, and that are generated on it; empty: none
  int64_t off_chip_bytes = 0;  // of these and of those that are streamed, as the plan has it, with gradients and the optimizer's state
  double bram36 = 0;           // what the layers' weights and gradients take as they are generated, beside UltraRAM
  std::string streamed;        // whose weights and gradients are streamed; empty: none
  double streamed_bytes_per_sample = 0;
};

// What a device takes or has.
struct BoardAmounts {
  double dsp = 0, bram36 = 0, luts = 0, flip_flops = 0, urams = 0;
};
// Of all shards of a device, as the plan reckons with them.
BoardAmounts planned_amounts(const Plan& plan, int64_t device);
// Of a board, as far as the plan knows it; zeros: it does not.
BoardAmounts board_capacity(const Plan& plan, const std::string& board);

// One device's modules, by the plan's index of it; `layers` in the order of its shards.
struct HardwareUse {
  int64_t index = 0;
  std::string board;
  std::vector<std::string> layers = {};
  std::vector<ModuleUse> modules = {};
  WeightsOnChip off_chip = {};
};

BoardAmounts built_amounts(const HardwareUse& device);
// All modules, sums by layer and of the device, the plan's amounts by layer.
std::string resources_json(const HardwareUse& device, const Plan& plan);
std::string resources_table(const HardwareUse& device, const Plan& plan);
// "11522 BRAM36 of 1470": all that the board lacks, as far as the plan knows the board; empty: nothing.
std::string what_does_not_fit(const HardwareUse& device, const Plan& plan);

}  // namespace millrace
