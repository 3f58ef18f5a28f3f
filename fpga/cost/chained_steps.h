// What the steps of a recurrent layer take on a board, whose x W another device makes: chained elements that load their weights for every
// F and every E (fpga/pe_chain), one direction behind the other. Internal to fpga/cost.
//
//   std::string why;
//   if (const auto steps = chained_steps(question, board, 16, &why)) ... steps->forward_seconds
//
// Weights come over the link into the board's own memory while other steps run, and go from there into the elements before each F and
// E, 512 bits a cycle: that time is the phase's, for the elements have one copy of weights. FP and EB share the elements and take turns.
// Where several boards share the steps, a board's part is of some cells of both directions, which take turns on the elements; what it waits
// for the others' rows is not in it (core/plan/parts.h).
// For EB the board keeps gates and cell of every step in its own memory. Everything modelled.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "core/device/cost_model.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/pe_chain/board_row.h"

namespace millrace {

// A question about steps alone: its block has no inputs.
bool asks_for_steps(const ShardQuestion& question);

struct ChainedSteps {
  BoardRow row;
  double load_seconds = 0;     // of one pass, the longer of both ways
  double forward_seconds = 0;  // of a sample, its part of the load included
  double back_seconds = 0;
  double input_product_seconds = 0;  // of a sample and phase, were x W made here, too (core/plan/pair_modes.h)
  double memory_bits = 0;            // of the blocks that hold weights, and of those behind the chains
  double off_chip_bytes = 0;         // what FP leaves for EB, of all micro-batches in flight, and the weights that arrive
};
// Rows of chains that were looked for, of one board and width of elements: a search asks for the same few cells on many devices. Thread
// safe.
class KnownRows {
 public:
  struct Row {
    std::optional<BoardRow> row;
    std::string lack;  // where there is none
  };
  Row at(const RecurrentSize& size, const ChainBoard& board, int64_t bits, int64_t samples);

 private:
  using Key = std::tuple<int64_t, int64_t, CellKind, int64_t, int64_t, int64_t>;
  std::mutex mutex_;
  std::map<Key, Row> known_;
};

// None where the board cannot make them: `why` says what is lacking, as the end of a sentence.
std::optional<ChainedSteps> chained_steps(const ShardQuestion& question, const FpgaResources& board, int64_t bits, KnownRows& known,
                                          std::string* why);

}  // namespace millrace
