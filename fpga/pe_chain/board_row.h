// Boards in a row that share one direction of a recurrent layer by its units: what each takes, and what a step takes.
//
//   const auto row = best_row({.cells = 1024, .fed_back = 1024}, board, /*boards=*/2, 16);
//   row->forward_cycles;       // of LSTM-1024 on two VC709, at 200 MHz
//   row->dsp;                  // 2,688: 2,048 elements, and the gates behind 32 chains
//
// A unit has as many chains as elements of its width fill the port of weights, or half as many, and so on, where the gates behind so many
// leave too little; their length is what is looked for: the fastest that slices and blocks of the board allow, the shortest of equals. What
// chains take and how long a step is, says built_chain.h, which is what is built. A board keeps its rows of U forward, its columns back,
// and takes what the others made over its cable, which the step waits for: (boards - 1) (latency + bits / rate). Where a layer projects its
// outputs, its two products wait for each other, and samples that take turns hide that; it has four chains or more; several boards make as
// large a part of the features each as of the units, and cross twice a step, behind either product. Weights lie in UltraRAM where the board
// has any, those of two chains of 32 bits or four of 16 to a block of 4,096 words, as the paper has it; else in half blocks of BRAM, as all
// besides the weights does. Everything modelled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/operation/operation.h"
#include "fpga/pe_chain/built_chain.h"

namespace millrace {

struct RecurrentSize {
  int64_t cells = 0;
  int64_t fed_back = 0;  // cells, or what they are projected to
  CellKind cell = CellKind::kLstm;
  int64_t units = 0;       // the cells whose steps this board makes; 0: an even part
  int64_t directions = 1;  // that take turns as samples do, all their weights in the elements

  int64_t gates() const { return gates_of(cell); }
  // What of h a board with so many units makes: as large a part.
  int64_t features_of(int64_t of_units) const { return of_units * fed_back / cells; }
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

inline constexpr double kUsableDsp = 0.85;    // projected
inline constexpr double kUsableMemory = 0.9;  // projected: of blocks

struct BoardRow {
  int64_t boards = 1;
  int64_t chains = 0, elements = 0;  // of a unit
  int64_t words = 0;                 // of the fullest element, forward or back
  double dsp = 0;
  double urams = 0, half_blocks = 0;                    // of a BRAM36
  int64_t forward_load_beats = 0, back_load_beats = 0;  // of a pass, one of the port a cycle
  int64_t forward_cycles = 0, back_cycles = 0;
  double forward_seconds = 0, back_seconds = 0;  // of a step, with what crosses the cables
};

// None where no length fits; `why`, if given, then says what is lacking with the chains that lack least.
// Of `samples` that take turns: cycles and seconds are then of a step of all of them.
std::optional<BoardRow> best_row(const RecurrentSize& size, const ChainBoard& board, int64_t boards, int bits, std::string* why = nullptr,
                                 int64_t samples = 1);

}  // namespace millrace
