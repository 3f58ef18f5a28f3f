#include "fpga/pe_chain/board_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

std::optional<BoardRow> best_row(const RecurrentSize& size, const ChainBoard& board, int64_t boards, int bits, std::string* why,
                                 int64_t samples) {
  const int64_t chains = kPortBits / bits, units = size.units > 0 ? size.units : divided_up(size.cells, boards);
  samples *= size.directions;
  const bool projected = size.fed_back != size.cells;
  if (why != nullptr) why->clear();
  if (projected && boards > 1) {
    if (why != nullptr) *why = "a projection's sums lie across boards: one board or none";
    return std::nullopt;
  }
  const double slices = std::floor(board.dsp * kUsableDsp);
  const double blocks_there = kUsableMemory * (board.uram > 0 ? board.uram : 2 * board.bram36);
  std::optional<BoardRow> best;
  double least_lack = 0;
  for (int64_t length = 1; length <= kLongestChain; ++length) {
    BoardRow row{.boards = boards, .elements = chains * length};
    const ChainProduct forward{size.fed_back, units, row.elements}, back{size.cells, projected ? size.fed_back : units, row.elements};
    int64_t forward_feed = feed_cycles(forward), back_feed = feed_cycles(back);
    if (projected) {  // its inputs are divided over the units
      forward_feed += feed_cycles({divided_up(size.cells, size.gates), size.fed_back, row.elements});
      back_feed += feed_cycles({divided_up(size.fed_back, size.gates), size.cells, row.elements});
    }
    row.words = size.directions * std::max(forward_feed, back_feed);
    const int64_t elements = size.gates * row.elements;
    row.dsp = static_cast<double>(elements * (bits == 16 ? 1 : kDspOfFloat));
    row.blocks = static_cast<double>(board.uram > 0 ? divided_up(elements, 64 / bits) * divided_up(row.words, 4096)
                                                    : elements * bram18_blocks({bits, row.words}));
    if (row.dsp > slices || row.blocks > blocks_there) {
      const double lack = std::max(row.dsp / slices, row.blocks / blocks_there);
      if (why != nullptr && (why->empty() || lack < least_lack)) {
        least_lack = lack;
        *why = row.dsp > slices ? fmt::format("chains of {} take {:.0f} slices, of {:.0f}", length, row.dsp, slices)
                                : fmt::format("chains of {} keep {} weights an element and take {:.0f} {}, of {:.0f}", length, row.words,
                                              row.blocks, board.uram > 0 ? "UltraRAM" : "half blocks", blocks_there);
      }
      continue;
    }
    const StepWait wait{.latency = kElementLatency, .chains = chains, .samples = samples};
    row.forward_cycles = samples * forward_feed + (projected ? 0 : exposed_cycles(forward, wait));
    row.back_cycles = samples * back_feed + (projected ? 0 : exposed_cycles(back, wait));
    const auto gathered = [&](int64_t words) {
      if (boards == 1) return 0.0;
      return static_cast<double>(boards - 1) *
             (static_cast<double>(samples * words * bits) / board.cable_bits_per_second + board.cable_seconds);
    };
    row.forward_seconds = static_cast<double>(row.forward_cycles) / board.clock_hz + gathered(units);
    row.back_seconds = static_cast<double>(row.back_cycles) / board.clock_hz + gathered(size.gates * units);
    if (!best || row.forward_seconds + row.back_seconds < best->forward_seconds + best->back_seconds) best = row;
  }
  return best;
}

}  // namespace millrace
