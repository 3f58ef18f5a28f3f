// The functional model of the engine of blocked columns: what it computes, to the bit, and what it fetches, to the word.
//
//   BlockedTraffic traffic;
//   const std::vector<int16_t> h = blocked_forward(config, layer, image, run, x, state, counters, traffic);
//   traffic.weight_words == batch_timing(config).weight_words;
//
// It walks as the hardware does: job by job (jobs_of), weights copied from the image into slots as blocks are loaded, sums of 32 bits
// that wait in a store between two blocks, the state read chunk by chunk. The result equals direct_forward's for any blocks, batch, lanes
// and columns, because sums that wrap may be added in any order. Internal to fpga/sbe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fpga/recurrence/arithmetic/fixed_recurrent.h"
#include "fpga/sbe/engine_config.h"
#include "fpga/sbe/phases/weight_image.h"

namespace millrace {

// Blocks that are on the chip at once and what is done with them, in order.
struct BlockJob {
  int64_t first_block = 0, blocks = 0;    // streamed ones
  int64_t first_vector = 0, vectors = 0;  // step * streams + stream
  bool walks = false;                     // over steps: it has columns of h
  bool reads_pinned = false;              // behind the streamed blocks
};
std::vector<BlockJob> jobs_of(const SbeConfig& config);

struct BlockedTraffic {
  int64_t weight_words = 0;
  int64_t input_words = 0;
  int64_t output_words = 0;
};

// Streams and steps of `run` are those of `config`; it has sums where those arrive. x is [stream][step][input], the result
// [stream][step][feature].
std::vector<int16_t> blocked_forward(const SbeConfig& config, const FixedRecurrent& layer, const WeightImage& image,
                                     const RecurrentRun& run, std::span<const int16_t> x, RecurrentState& state,
                                     RecurrentCounters& counters, BlockedTraffic& traffic);

}  // namespace millrace
