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

namespace millrace {

// From a unit's last product to its h at the multipliers: four cycles to the sums, one to the tail, ten through it.
inline constexpr int64_t kBuiltLatency = 15;
inline constexpr int64_t kDistributedDepth = 64;  // of sums; deeper stores are block memory

struct SbeHardware {
  CellKind cell = CellKind::kLstm;
  GateForms forms;
  int64_t lanes = 0, columns = 1, units = 1, beat_words = 4, slots = 2, streams = 1;
  int64_t weight_depth = 0, input_depth = 0, state_depth = 0, kept_depth = 0, bias_depth = 0, store_depth = 0, output_depth = 0;

  bool operator==(const SbeHardware&) const = default;
};

// As the modules name them.
std::vector<std::pair<std::string_view, int64_t>> parameters_of(const SbeHardware& hardware);

// Fails with kUnavailable, naming the numbers, on engines that can be modelled but not built.
void check_buildable(const SbeConfig& config);
// Memories as deep as the batch needs them.
SbeHardware hardware_of(const SbeConfig& config, CellKind cell, const GateForms& forms);

struct SbeSettings {
  int64_t streams = 0, steps = 0, groups = 0, input_jobs = 0, block_chunks = 0, input_last_chunks = 0, walk_parts = 0, walk_last_chunks = 0;
  int64_t lead = 0;
  bool resident = false, walk_pinned = false;
  int64_t units = 0, state_units = 0, group_words = 0, last_group_words = 0, stream_words = 0, stream_places = 0;
  int64_t slot_words = 0, pinned_place = 0, input_slot_words = 0, input_store_distance = 0, walk_store_distance = 0;
  int64_t input_job_words = 0, input_last_words = 0, input_walk_words = 0;
  int64_t stream_blocks = 0, stream_input_blocks = 0, stream_walks = 0, stream_last_chunks = 0;
  int64_t group_beats = 0, last_group_beats = 0, block_beats = 0, last_block_beats = 0, pinned_beats = 0;
  int64_t address = 0, stride = 0, pinned_address = 0;
  int64_t sum_shift = 0, hidden_shift = 0;
};

// `address`, of the image in the memory outside, is a multiple of a page.
SbeSettings settings_of(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image, int64_t address);

// x in the order in which the engine takes it, chunk after chunk, zeros behind the last input; x is [stream][step][input].
std::vector<int16_t> input_chunks_of(const SbeConfig& config, const FixedRecurrent& layer, std::span<const int16_t> x);

const std::vector<RtlModule>& sbe_rtl_modules();

}  // namespace millrace
