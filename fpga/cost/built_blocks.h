// The memory of a generated shard on its board: blocks of it, and what they are of the board's memory in bits. Internal to fpga/cost.
//
//   const EngineMemory memory = engines.memory_of(engine, {});
//   const BuiltBlocks blocks = built_blocks(memory, engines.after_sum(engine), true, act_ram_blocks(memory, engine.held, 9e6), {1470});
//   blocks.fixed.bram36 + blocks.parameters.bram36;      // as `millrace rtl --check` counts them
//   blocks.fixed_bits;                                   // whole blocks
//
// Weights and gradients of what is built lie beside the engine or in the board's own memory, never on another board: FP and EB read every
// kernel with every row.
// A board with UltraRAM shares its memories out over two kinds of blocks, and cuts them by columns (shared_out.h); a sum over shards must
// say whether it can. `exchanged` counts each column as what it takes of block RAM, or as a rate times the UltraRAMs that it takes,
// whichever is less: where memories fit, for every rate the sum is at most bram36 + rate * urams; and where that holds for every rate they
// fit, but for less than one column. Bits are those at a rate of eight, where no column takes less of UltraRAM. Pure; nothing is
// allocated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "fpga/common/cost/fabric_costs.h"
#include "fpga/common/cost/packed_blocks.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

// BRAM36 that an UltraRAM stands for: as many as the memories have that are as deep as one to eight blocks. At 0 what can be of UltraRAM is
// free.
inline constexpr std::array<double, 8> kExchangeRates = {0, 1, 2, 3, 4, 5, 6, 7};

// Of such a memory, in BRAM36s, at one of them.
double exchanged_blocks(const MemoryBlocks& memory, double rate);
// In whichever kind of block it fills fewer bits.
double fewest_bits(const MemoryBlocks& memory);

// As many bits, when both are full.
inline constexpr double kBram36OfUramBits = 8;

struct BuiltBlocks {
  PackedBlocks fixed, parameters;
  double fixed_bits = 0, parameter_bits = 0;
  std::array<double, kExchangeRates.size()> exchanged{};  // of boards that have UltraRAM
};

// Halves of a BRAM36 that words of so many lanes take besides what their bits fill; none where they lie outside.
int64_t act_ram_columns(int64_t input_lanes, const WeightsAt& at);
// Bits that so many lanes are counted for besides.
int64_t act_ram_word_bits(int64_t input_lanes);

// Of so many planned bits. No less than it takes, and never less for more bits or lanes: full columns of blocks, a part of one per column
// and per width of what is left over.
MemoryBlocks act_ram_blocks(const EngineMemory& memory, const ConvolutionShape& held, double planned_bits);
// Where it lies outside, what is left of it on the chip.
struct ActRamOutside {
  int64_t bram18 = 0;  // never of UltraRAM
  FabricUse fabric;
  double bytes_per_sample = 0;  // there and back
  bool keeps_up = false;
};
// Of an engine that has this memory, or of the least of all; or as the former, with the bytes of the latter.
enum class OutsideCount { kMost, kFewestBytes, kLeast };
// In so many cycles for a sample.
ActRamOutside act_ram_outside(const EngineMemory& memory, const ConvolutionShape& held, int64_t period_cycles, OutsideCount count);

// `after`: null where it is not known. `act_ram`: nothing where it lies outside.
BuiltBlocks built_blocks(const EngineMemory& memory, const BlocksAfterSum* after, bool owner, const std::optional<MemoryBlocks>& act_ram,
                         const BlockInventory& board);

}  // namespace millrace
