// The engines of several layers that share one board, chosen together: every combination of every way to build each of them.
//
//   const JointExploration found = explore_together(spaces, board, {.dsp = 12});      // 12 slices belong to others
//   if (found.fastest) fmt::print("{} sequences/s\n", 1 / found.fastest->seconds);
//
// All layers work side by side, each on its own sequences: a sequence takes as long as the slowest engine, or as the memory's bus takes
// for the weights of all. Slices, LUTs, LUTRAM, blocks of memory and the bus are shared; multipliers that find no slice are built of LUTs,
// whosever they are. Spaces are those of exploration.h, with one number of streams each.
// Answers are those of trying all combinations (tests/fpga/sbe): per layer nothing is left out but what another way beats in every
// resource, spaces of the same numbers allow the same, a combination is given up where the least that the other layers take is too much,
// and periods are searched by bisection, for a longer one never asks more. The front: no other combination has fewer seconds a sequence and
// at most the BRAM36, or the other way round. A pure function of its arguments.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "fpga/sbe/exploration.h"

namespace millrace {

// What others on the board take of it.
struct BoardShare {
  double dsp = 0, lut = 0, bram36 = 0;
};

struct JointChoice {
  std::vector<SbeConfig> configs;  // of each layer
  double seconds = 0;              // a sequence
  double bram36 = 0;               // of all layers; UltraRAM as the BRAM36 that hold as much
  double slices = 0;               // wanted by all; what the board has not is built of LUTs
};

struct JointExploration {
  std::optional<JointChoice> fastest;
  std::vector<JointChoice> front;  // by rising seconds; empty: nothing fits
};

// What single layers could be, for explorations to come: found once for spaces of the same numbers, which must allow the same, on boards
// that are alike. A copy knows what the other does. Thread safe.
class KnownLayers {
 public:
  KnownLayers();

 private:
  friend class JointExplorer;
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

// The same board asked several times, with more or less of it taken: what every layer alone could be is found once.
class JointExplorer {
 public:
  JointExplorer(std::span<const SbeSpace> layers, const SbeBoard& board, const KnownLayers& known = {});
  // `most` points of the front, from the fastest on.
  JointExploration within(const BoardShare& taken, size_t most = SIZE_MAX) const;

 private:
  class Together;
  std::shared_ptr<const Together> together_;
};

JointExploration explore_together(std::span<const SbeSpace> layers, const SbeBoard& board, const BoardShare& taken = {},
                                  size_t most = SIZE_MAX, const KnownLayers& known = {});

}  // namespace millrace
