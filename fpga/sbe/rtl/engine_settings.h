// What a run of the engine of blocked columns is told, port by port: numbers alone, so that what is compiled around a Verilated engine
// reads them, too (settings_of in engine_hardware.h makes them).
#pragma once

#include <cstdint>

namespace millrace {

struct SbeSettings {
  int64_t streams = 0, steps = 0, groups = 0, input_jobs = 0, block_chunks = 0, input_last_chunks = 0, walk_parts = 0, walk_last_chunks = 0;
  int64_t lead = 0;
  bool resident = false, walk_pinned = false;
  int64_t units = 0, state_units = 0, group_words = 0, last_group_words = 0, feature_words = 0, stream_words = 0, stream_places = 0;
  int64_t slot_words = 0, pinned_place = 0, input_slot_words = 0, input_store_distance = 0, walk_store_distance = 0;
  int64_t input_job_words = 0, input_last_words = 0, input_walk_words = 0;
  int64_t stream_blocks = 0, stream_input_blocks = 0, stream_walks = 0, stream_last_chunks = 0;
  int64_t group_beats = 0, last_group_beats = 0, block_beats = 0, last_block_beats = 0, pinned_beats = 0;
  int64_t address = 0, stride = 0, pinned_address = 0;
  int64_t sum_shift = 0, hidden_shift = 0, projection_shift = 0;
};

}  // namespace millrace
