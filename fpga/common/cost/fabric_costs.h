// LUTs and flip-flops of an engine, its special-function unit and a board's interconnection modules.
//
//   FabricUse use = engine_fabric({.multipliers = 2025, .fabric_multipliers = 0, .phases = 3}, /*element_bits=*/16);
//   use += special_function_fabric(after.lane_logic, 16);
//
// Counts of 7-series logic (one LUT and one flip-flop per bit of an adder, four LUTs per three bits of a 64-deep LUTRAM, a
// multiplier of n bits in n*n LUTs), written down from how the engine is built; nothing here is measured.
// Everything adds up over shards. What a board has once, its six interconnection modules, comes off its capacity instead.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

struct FabricUse {
  double luts = 0;
  double flip_flops = 0;

  FabricUse& operator+=(const FabricUse& other) {
    luts += other.luts;
    flip_flops += other.flip_flops;
    return *this;
  }
  bool operator==(const FabricUse&) const = default;
};

struct EngineLogic {
  int64_t multipliers = 0;         // of all phases together
  int64_t fabric_multipliers = 0;  // of these, not built of DSP slices
  int64_t phases = 0;
};

// Registers and adders beside the multipliers, control, and the FIFOs of a shard's streams. No phases: the FIFOs alone.
FabricUse engine_fabric(const EngineLogic& logic, int64_t element_bits);
// `lane_logic`: SpecialFunctionUse::lane_logic of the layers after the sum; the bias comes on top.
FabricUse special_function_fabric(double lane_logic, int64_t element_bits);
// Of a board, once.
FabricUse interconnection_fabric();

// With their origin: projected.
std::vector<Constant> fabric_constants();

}  // namespace millrace
