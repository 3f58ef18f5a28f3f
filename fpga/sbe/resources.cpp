#include "fpga/sbe/resources.h"

#include <algorithm>

namespace millrace {

namespace {

constexpr int64_t kWordBits = 16, kSumBits = 32;
constexpr int64_t kSlicesPerTailUnit = 4;
constexpr double kLutsPerMultiplier = 256, kLutsPerAccumulator = kLutsOfFabricMultiplier - kLutsPerMultiplier, kLutsPerTailUnit = 512,
                 kControlLuts = 900;

}  // namespace

int64_t SbeBoard::words_per_cycle() const {
  const double from_memory = bytes_per_second / (kWordBits / 8) / clock_hz;
  return std::max<int64_t>(1, std::min(bus_bits / kWordBits, static_cast<int64_t>(from_memory)));
}

SbeUse sbe_use(const SbeConfig& config, const SbeBoard& board) { return UseCounter(board).use_of(config); }

const PackedBlocks& UseCounter::packed(Memory memory, const MemoryShape& shape) {
  Packed& last = last_[memory];
  if (last.shape.width != shape.width || last.shape.depth != shape.depth || last.shape.banks != shape.banks) {
    last = {shape, {}};
    last.blocks.add(shape, {board_.bram36, board_.uram});
  }
  return last.blocks;
}

SbeUse UseCounter::use_of(const SbeConfig& config) {
  SbeUse use;
  const auto add = [&](double& share, Memory memory, const MemoryShape& shape, int64_t copies = 1) {
    const PackedBlocks& blocks = packed(memory, shape);
    const auto times = static_cast<double>(copies);
    share += 2 * times * blocks.bram36;
    use.bram36 += times * blocks.bram36;
    use.uram += times * blocks.urams;
  };
  const int64_t vectors = config.vectors(), groups = config.groups();
  const int64_t streamed = config.pinned == Pinned::kAll ? 0 : config.block_chunks;
  const int64_t pinned = config.pinned == Pinned::kNone     ? 0
                         : config.pinned == Pinned::kHidden ? config.hidden_chunks()
                                                            : config.input_chunks() + config.hidden_chunks();
  const int64_t beat = config.words_per_cycle;
  const int64_t banks = divided_up(config.multipliers(), beat);
  if (config.one_weight_memory) {
    add(use.weights, kWeights, {beat * kWordBits, groups * (config.slots * streamed + pinned), banks});
  } else {
    add(use.weights, kWeights, {beat * kWordBits, groups * streamed, banks}, config.slots);
    add(use.weights, kPinnedWeights, {beat * kWordBits, groups * pinned, banks});
  }
  const int64_t input_chunks = config.pinned == Pinned::kAll ? config.input_chunks() : streamed;
  add(use.inputs, kInputs, {config.columns * kWordBits, 2 * vectors * input_chunks, 1});
  add(use.hidden, kHidden, {config.columns * kWordBits, config.streams * config.hidden_chunks(), 1}, 2);
  add(use.cells, kCells, {config.tail_units * kSumBits, divided_up(config.streams * config.shape.hidden, config.tail_units), 1});
  const int64_t output_words = config.inputs_share_bus ? beat : config.tail_units;
  const int64_t least_outputs = config.inputs_share_bus ? 0 : kLeastOutputDepth;
  add(use.outputs, kOutputs,
      {output_words * kWordBits, std::max(least_outputs, 2 * divided_up(vectors * config.shape.features(), output_words)), 1});
  if (config.shape.projection > 0)
    add(use.projection, kProjection,
        {beat * kWordBits, divided_up(config.shape.hidden, config.tail_units), divided_up(config.projection_multipliers(), beat)});
  const int64_t depth = vectors * groups, width = config.row_lanes * kSumBits;
  if (depth <= kLutramDepth) {
    use.lutram_lut = lutram_luts(depth, static_cast<double>(width));
  } else {
    add(use.sums, kSums, {width, depth, 1});
  }
  const int64_t slices = config.multipliers() + config.projection_multipliers() + kSlicesPerTailUnit * config.tail_units;
  use.dsp = std::min(static_cast<double>(slices), board_.dsp);
  use.fabric_multipliers = slices - static_cast<int64_t>(use.dsp);
  use.lut = static_cast<double>(use.fabric_multipliers) * kLutsOfFabricMultiplier + use.lutram_lut +
            kLutsPerTailUnit * static_cast<double>(config.tail_units) + kControlLuts;
  return use;
}

bool SbeUse::fits(const SbeBoard& board) const {
  return bram36 <= board.bram36 && uram <= board.uram && lutram_lut <= board.lutram_lut && lut <= kUsableLuts * board.lut;
}

std::vector<Lack> SbeUse::lacks(const SbeBoard& board) const {
  std::vector<Lack> all;
  const auto compare = [&all](const char* name, double wanted, double there) {
    if (wanted > there) all.push_back({name, wanted, there});
  };
  compare("bram36", bram36, board.bram36);
  compare("uram", uram, board.uram);
  compare("lutram_lut", lutram_lut, board.lutram_lut);
  compare("lut", lut, kUsableLuts * board.lut);
  return all;
}

std::vector<Constant> sbe_constants() {
  const auto projected = [](const char* name, double value) { return Constant{name, value, "projected"}; };
  return {{"tail_latency_cycles", 25, "fitted"},
          {"slices_per_tail_unit", static_cast<double>(kSlicesPerTailUnit), "inferred"},
          projected("luts_per_fabric_multiplier", kLutsPerMultiplier),
          projected("luts_per_fabric_accumulator", kLutsPerAccumulator),
          projected("luts_per_tail_unit", kLutsPerTailUnit),
          projected("control_luts", kControlLuts),
          projected("usable_luts", kUsableLuts),
          projected("usable_bandwidth", kUsableBandwidth)};
}

}  // namespace millrace
