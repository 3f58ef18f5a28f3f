// The engine of blocked columns as its modules are told of it: what is built (parameters) and what a run sets (settings).
//
//   const SbeHardware hardware = hardware_of(config, layer);
//   const SbeSettings settings = settings_of(config, layer, image, /*address=*/0);
//
// The modules are fpga/sbe/rtl/modules, fpga/recurrence/rtl/modules and fpga/common/rtl/modules; sbe_engine.sv is the top. Built so, an
// engine runs every batch that fits its memories.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "fpga/common/rtl/rtl_modules.h"
#include "fpga/recurrence/arithmetic/fixed_recurrent.h"
#include "fpga/sbe/engine_config.h"
#include "fpga/sbe/phases/weight_image.h"
#include "fpga/sbe/rtl/engine_settings.h"

namespace millrace {

// From a unit's last product to its h at the multipliers: four cycles to the sums, one to the tail, ten through it.
inline constexpr int64_t kBuiltLatency = 15;
inline constexpr int64_t kDistributedDepth = 64;  // of sums; deeper stores are block memory

struct SbeHardware {
  CellKind cell = CellKind::kLstm;
  GateForms forms;
  bool sums = false;  // of x, made elsewhere, come in place of x
  int64_t lanes = 0, columns = 1, units = 1, beat_words = 4, slots = 2, streams = 1;
  int64_t weight_depth = 0, input_depth = 0, state_depth = 0, kept_depth = 0, bias_depth = 0, store_depth = 0, output_depth = 0;
  int64_t projection = 0, projection_depth = 1;  // features, and words of units

  // Of x, or of the sums in its place.
  int64_t words_of_input() const { return sums ? 2 * units * gates_of(cell) : columns; }
  bool operator==(const SbeHardware&) const = default;
};

// As the modules name them.
std::vector<std::pair<std::string_view, int64_t>> parameters_of(const SbeHardware& hardware);

// Fails with kUnavailable, naming the numbers, on engines that can be modelled but not built.
void check_buildable(const SbeConfig& config);
// The same as an answer, without a message's cost; and of lanes, columns and tail units alone, whatever the batch and its blocks.
bool can_be_built(const SbeConfig& config);
bool array_can_be_built(const SbeConfig& config);
// Memories as deep as the batch needs them.
SbeHardware hardware_of(const SbeConfig& config, CellKind cell, const GateForms& forms);

// `address`, of the image in the memory outside, is a multiple of a page.
SbeSettings settings_of(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image, int64_t address);

// x in the order in which the engine takes it, chunk after chunk, zeros behind the last input; x is [stream][step][input].
std::vector<int16_t> input_chunks_of(const SbeConfig& config, const FixedRecurrent& layer, std::span<const int16_t> x);

// The same of sums that arrive in place of x: two words each, the lower half first.
std::vector<int16_t> sum_words_of(const SbeConfig& config, const FixedRecurrent& layer, std::span<const int32_t> sums);

// The second matrix of a layer that projects, as its memory holds it: for every word of units the weights of all features.
std::vector<int16_t> projection_words(const SbeConfig& config, const FixedRecurrent& layer);

// As the engine's memory holds them: of each unit its gates', and behind them the state's own where there is one.
std::vector<int32_t> bias_words(const FixedRecurrent& layer);
inline int64_t biases_of_unit(CellKind cell) { return gates_of(cell) + (cell == CellKind::kGru ? 1 : 0); }

const std::vector<RtlModule>& sbe_rtl_modules();
// Those and what they are made of: everything that an engine needs.
std::vector<RtlModule> sbe_engine_modules();

}  // namespace millrace
