#include "fpga/cost/built_blocks.h"

#include <algorithm>
#include <cmath>

#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

namespace {

constexpr int64_t kWidth18 = 36;

class Counter {
 public:
  Counter(const BlockInventory& board, BuiltBlocks& built, PackedBlocks& blocks, double& bits)
      : board_(board), built_(built), blocks_(blocks), bits_(bits) {}

  // Never of UltraRAM.
  void add(int64_t bram18) {
    const double bram36 = static_cast<double>(bram18) / 2;
    blocks_.bram36 += bram36;
    bits_ += bram36 * static_cast<double>(kBram36Bits);
    if (board_.urams > 0)
      for (double& amount : built_.exchanged) amount += bram36;
  }
  // Of either, in the blocks as packed_blocks.h has it.
  void add(const MemoryBlocks& memory) {
    if (board_.urams <= 0) return add(memory.bram18);
    const double bram36 = static_cast<double>(memory.bram18) / 2;
    const auto urams = static_cast<double>(memory.urams);
    const bool ultra = urams * board_.bram36 < bram36 * board_.urams;
    (ultra ? blocks_.urams : blocks_.bram36) += ultra ? urams : bram36;
    bits_ += std::min(bram36 * static_cast<double>(kBram36Bits), urams * static_cast<double>(kUramBits));
    const double last_bram36 = static_cast<double>(memory.last_bram18) / 2;
    const auto last_urams = static_cast<double>(memory.last_urams);
    for (size_t rate = 0; rate < kExchangeRates.size(); ++rate)
      built_.exchanged[rate] += std::min(bram36 - last_bram36, kExchangeRates[rate] * (urams - last_urams)) +
                                std::min(last_bram36, kExchangeRates[rate] * last_urams);
  }

 private:
  const BlockInventory& board_;
  BuiltBlocks& built_;
  PackedBlocks& blocks_;
  double& bits_;
};

// No less than it takes, and never less for more bits or lanes: full columns of blocks, a part of one per column and per width of what is
// left over.
MemoryBlocks act_ram_blocks(const EngineMemory& memory, const ConvolutionShape& held, double planned_bits) {
  constexpr double kDepth18 = 512, kNarrower = 4, kWidthUltra = 72, kFilledUltra = 64, kDepthUltra = 4096;
  const auto sample = static_cast<double>(memory.input_channels * held.height * held.width * kElementBits);
  const auto width = static_cast<double>(act_ram_word_bits(memory.input_lanes));
  const double bits = std::max(sample, std::min(planned_bits, 9e18) + width);
  MemoryBlocks blocks;
  blocks.bram18 =
      static_cast<int64_t>(std::ceil(bits / (static_cast<double>(kWidth18) * kDepth18)) + kNarrower) + act_ram_columns(memory.input_lanes);
  // Of words that fill columns as well as four channels do.
  blocks.urams = static_cast<int64_t>(std::ceil(bits / (kFilledUltra * kDepthUltra)) + std::ceil(width / kWidthUltra));
  return blocks;
}

}  // namespace

int64_t act_ram_word_bits(int64_t input_lanes) { return input_lanes * kElementBits; }
int64_t act_ram_columns(int64_t input_lanes) { return act_ram_word_bits(input_lanes) / kWidth18; }

BuiltBlocks built_blocks(const EngineMemory& memory, const BlocksAfterSum* after, bool owner, const ConvolutionShape& held,
                         double act_ram_bits, const BlockInventory& board) {
  BuiltBlocks built;
  Counter fixed(board, built, built.fixed, built.fixed_bits);
  fixed.add(memory.bram18);
  fixed.add(act_ram_blocks(memory, held, act_ram_bits));
  Counter parameters(board, built, built.parameters, built.parameter_bits);
  parameters.add(memory.parameters);
  parameters.add(memory.gradients);
  if (after == nullptr) return built;
  for (const MemoryBlocks& waiting : after->before) fixed.add(waiting);
  if (!owner) return built;
  fixed.add(after->bram18);
  for (const MemoryBlocks& large : after->large) fixed.add(large);
  return built;
}

}  // namespace millrace
