// Boards in a row that share one direction of a recurrent layer by its units: what each takes, and what a step takes.
//
//   const auto row = best_row({.cells = 1024, .fed_back = 1024, .gates = 4}, board, /*boards=*/2, 16);
//   row->forward_cycles;       // 1,246 of 200 MHz for LSTM-1024 on two VC709: 6.8 us a step forward, 7.2 back
//
// A unit has as many chains as elements of its width fill the port of weights; their length is what is looked for: the fastest that
// slices and blocks of the board allow, the shortest of equals. A board keeps its rows of U forward, its columns back, and takes
// what the others made over its cable, which the step waits for: (boards - 1) (latency + bits / rate). Weights lie in UltraRAM where the
// board has any, two elements of 32 bits or four of 16 to a block of 4,096 words, else in half blocks of BRAM. Where a layer projects its
// outputs, the cycles for which its two products wait for each other are not counted. Everything modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct RecurrentSize {
  int64_t cells = 0;
  int64_t fed_back = 0;  // cells, or what they are projected to
  int64_t gates = 4;
  int64_t units = 0;       // the cells whose steps this board makes; 0: an even part
  int64_t directions = 1;  // that take turns as samples do, all their weights in the elements
};

// An engine as it is given by hand: of each unit so many chains, of so many elements, with memory for so many weights each.
struct ChainDimensions {
  int64_t chains = 0, length = 0, words = 0;
};
// "16x12x8192". Fails with kUsage on anything else.
ChainDimensions chain_dimensions_from(std::string_view text);
std::string text_of(const ChainDimensions& dimensions);

struct ChainBoard {
  std::string name;
  double dsp = 0, bram36 = 0, uram = 0;
  double clock_hz = 0;
  double cable_bits_per_second = 0, cable_seconds = 0;
  std::optional<ChainDimensions> dimensions = {};  // of the engine, where it is given; its chains fill the port
};

inline constexpr int64_t kPortBits = 512;        // paper 5.1.2
inline constexpr double kUsableDsp = 0.85;       // projected
inline constexpr double kUsableMemory = 0.9;     // projected: of blocks, for weights
inline constexpr int64_t kLongestChain = 63;     // chosen
inline constexpr int64_t kDspOfFloat = 4;        // chosen: multiplier and adder of 32 bits
inline constexpr int64_t kElementLatency = 222;  // as paper_machine.h: activation, adder, relays

struct BoardRow {
  int64_t boards = 1;
  int64_t elements = 0;  // of a unit
  int64_t words = 0;     // of the fullest element, forward or back
  double dsp = 0;
  double blocks = 0;  // UltraRAM, or halves of a BRAM36
  int64_t forward_cycles = 0, back_cycles = 0;
  double forward_seconds = 0, back_seconds = 0;  // of a step, with what crosses the cables
};

// None where no length fits; `why`, if given, then says what is lacking with the chains that lack least.
// Of `samples` that take turns: cycles and seconds are then of a step of all of them.
std::optional<BoardRow> best_row(const RecurrentSize& size, const ChainBoard& board, int64_t boards, int bits, std::string* why = nullptr,
                                 int64_t samples = 1);

}  // namespace millrace
