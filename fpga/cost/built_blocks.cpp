#include "fpga/cost/built_blocks.h"

#include <algorithm>
#include <cmath>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/rtl/outside_room.h"

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
    bits_ += fewest_bits(memory);
    for (size_t rate = 0; rate < kExchangeRates.size(); ++rate) built_.exchanged[rate] += exchanged_blocks(memory, kExchangeRates[rate]);
  }

 private:
  const BlockInventory& board_;
  BuiltBlocks& built_;
  PackedBlocks& blocks_;
  double& bits_;
};

}  // namespace

double exchanged_blocks(const MemoryBlocks& memory, double rate) {
  const double last_bram36 = static_cast<double>(memory.last_bram18) / 2, bram36 = static_cast<double>(memory.bram18) / 2;
  const auto last_urams = static_cast<double>(memory.last_urams), urams = static_cast<double>(memory.urams);
  return std::min(bram36 - last_bram36, rate * (urams - last_urams)) + std::min(last_bram36, rate * last_urams);
}

double fewest_bits(const MemoryBlocks& memory) {
  return std::min(static_cast<double>(memory.bram18) / 2 * static_cast<double>(kBram36Bits),
                  static_cast<double>(memory.urams) * static_cast<double>(kUramBits));
}

int64_t act_ram_word_bits(int64_t input_lanes) { return input_lanes * kElementBits; }
int64_t act_ram_columns(int64_t input_lanes, const WeightsAt& at) {
  return at.act_ram_outside ? 0 : act_ram_word_bits(input_lanes) / kWidth18;
}

MemoryBlocks act_ram_blocks(const EngineMemory& memory, const ConvolutionShape& held, double planned_bits) {
  constexpr double kDepth18 = 512, kNarrower = 4, kWidthUltra = 72, kFilledUltra = 64, kDepthUltra = 4096;
  const auto sample = static_cast<double>(memory.input_channels * held.height * held.width * kElementBits);
  const auto width = static_cast<double>(act_ram_word_bits(memory.input_lanes));
  const double bits = std::max(sample, std::min(planned_bits, 9e18) + width);
  MemoryBlocks blocks;
  blocks.bram18 = static_cast<int64_t>(std::ceil(bits / (static_cast<double>(kWidth18) * kDepth18)) + kNarrower) +
                  act_ram_columns(memory.input_lanes, {});
  // Of words that fill columns as well as four channels do.
  blocks.urams = static_cast<int64_t>(std::ceil(bits / (kFilledUltra * kDepthUltra)) + std::ceil(width / kWidthUltra));
  return blocks;
}

ActRamOutside act_ram_outside(const EngineMemory& memory, const ConvolutionShape& held, int64_t period_cycles, OutsideCount count) {
  const bool least = count == OutsideCount::kLeast;
  const int64_t pixels = held.height * held.width;
  // Of an engine that is not known, words of one channel.
  const int64_t lanes = least ? 1 : std::max<int64_t>(memory.input_lanes, 1), channels = least ? held.inputs : memory.input_channels;
  const int64_t words = divided_up(channels, lanes) * pixels, word_bits = act_ram_word_bits(lanes), cycles = least ? 0 : period_cycles;
  const OutsideRoom room = outside_room(1, words, word_bits, cycles);
  ActRamOutside outside{.bram18 = outside_blocks(room.beat_bits),
                        .fabric = outside_fabric(word_bits, room.beat_bits),
                        .keeps_up = room.keeps_up(words, word_bits, cycles)};
  if (count == OutsideCount::kMost)
    outside.bytes_per_sample = room.bytes_per_sample(words, word_bits);
  else
    outside.bytes_per_sample = OutsideRoom{}.bytes_per_sample(held.inputs * pixels, act_ram_word_bits(1));
  return outside;
}

BuiltBlocks built_blocks(const EngineMemory& memory, const BlocksAfterSum* after, bool owner, const std::optional<MemoryBlocks>& act_ram,
                         const BlockInventory& board) {
  BuiltBlocks built;
  Counter fixed(board, built, built.fixed, built.fixed_bits);
  fixed.add(memory.bram18);
  if (act_ram) fixed.add(*act_ram);
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
