// Every way to build the engine for a layer on a board, and the best ones: exact over the space stated here.
//
//   const Exploration found = explore({.shape = {1792, 256, 4}, .steps = 32}, board, {.least_steps_per_second = 25'000});
//   if (found.fastest) fmt::print("{}\n", text_of(found.fastest->config));
//   else for (const Remedy& remedy : found.remedies) ...        // which limit, by how much, and what would then do
//
// THE SPACE: lanes, one value per number of row groups; columns a cycle and tail units, powers of two up to a limit; chunks of a block,
// one value per distinct number of blocks; two or three slots; nothing, the columns of h or everything pinned; streams, doubled from
// the least up to a limit; steps of a batch, the divisors of the steps. Points whose tail does not keep up are not part of it.
// Points are left out by bounds that cannot err: resources are exact and cheap; a point whose bound on speed and latency is beaten by
// one that takes no more of anything is not timed. Answers are those of timing every point (tests/fpga/sbe).
// The front: no other point has at least the steps a second, at most the latency, BRAM36, DSP slices and bytes a step from outside, and
// differs. UltraRAM counts as the BRAM36 that hold as much. Of points alike in all of these the first in the space's order stands for all.
// A pure function of its arguments.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fpga/sbe/resources.h"
#include "fpga/sbe/timing.h"

namespace millrace {

struct SbeSpace {
  GateMatrix shape;
  int64_t steps = 1;  // of a sequence
  int64_t least_streams = 1;
  int64_t most_streams = 4;
  int64_t most_columns = 8;
  int64_t most_tail_units = 8;
  int64_t most_blocks = 32;
  int64_t latency = 25;
  bool inputs_share_bus = true;
  std::function<bool(const SbeConfig&)> allowed = {};  // of the space's points; empty: all
  std::function<bool(const SbeConfig&)> array_allowed =
      {};  // the same of lanes, columns and tail units, before a batch and blocks are there
};

struct SbeGoal {
  double least_steps_per_second = 0;
  double most_seconds = 0;  // of a batch; 0: any
};

struct SbePoint {
  SbeConfig config;
  SbeUse use;
  BatchTiming timing;
  double steps_per_second = 0;
  double seconds = 0;         // of a batch
  double bytes_per_step = 0;  // over the memory's bus
};

// A limit that alone stands in the way, and what it would have to be.
struct Remedy {
  std::string limit;  // "bram36", "steps_per_second", "seconds", ...
  double is = 0;
  double needed = 0;
  SbePoint then;  // what does with it
};

struct Exploration {
  std::optional<SbePoint> fastest;
  std::optional<SbePoint> smallest;  // of those that meet the goal: least block RAM, then least slices, then fastest
  std::vector<SbePoint> front;       // by falling steps a second
  std::vector<Remedy> remedies;      // where there is no point: each alone would do; empty: no single limit
  int64_t points = 0;                // of the space
  int64_t feasible = 0;              // of these, that fit the board; not all of them are timed
  int64_t timed = 0;
};

Exploration explore(const SbeSpace& space, const SbeBoard& board, const SbeGoal& goal = {});

// Every point of the space in its order, whatever it takes.
void for_each_config(const SbeSpace& space, int64_t words_per_cycle, const std::function<void(const SbeConfig&)>& visit);
// Whether the space's lanes, columns and tail units are allowed at all, whatever the batch and its blocks.
bool has_array(const SbeSpace& space, int64_t words_per_cycle);
SbePoint point_of(const SbeConfig& config, const SbeBoard& board);

// "256 lanes x 4 columns, 4 tail units, 14 blocks in 2 slots, h pinned, 4 streams x 32 steps"
std::string text_of(const SbeConfig& config);

}  // namespace millrace
