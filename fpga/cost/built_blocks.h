// The memory of a generated shard on its board: blocks of it, and what they are of the board's memory in bits.
//
//   const BuiltBlocks blocks = built_blocks(engines.memory_of(engine, {}), engines.after_sum(engine), true, engine.held, 9e6, {1470});
//   blocks.fixed.bram36 + blocks.parameters.bram36;      // as `millrace rtl --check` counts them
//   blocks.fixed_bits;                                   // whole blocks
//
// Weights and gradients of what is built lie beside the engine or in the board's own memory, never on another board: FP and EB read every
// kernel with every row. On boards that have UltraRAM bits are those of block RAM, and of what an UltraRAM would leave empty up to a
// quarter more. Pure; nothing is allocated.
#pragma once

#include <cstdint>

#include "fpga/common/cost/packed_blocks.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

struct BuiltBlocks {
  PackedBlocks fixed, parameters;
  double fixed_bits = 0, parameter_bits = 0;
};

// `after`: null where it is not known. `act_ram_bits`: planned.
BuiltBlocks built_blocks(const EngineMemory& memory, const BlocksAfterSum* after, bool owner, const ConvolutionShape& held,
                         double act_ram_bits, const BlockInventory& board);

}  // namespace millrace
