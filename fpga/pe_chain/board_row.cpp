#include "fpga/pe_chain/board_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/error.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/pe_chain/chain_product.h"

namespace millrace {

ChainDimensions chain_dimensions_from(std::string_view text) {
  ChainDimensions made;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool fits = true;
  for (int64_t* const value : {&made.chains, &made.length, &made.words}) {
    if (value != &made.chains) fits = fits && at != end && *at++ == 'x';
    if (!fits) break;
    const auto [behind, error] = std::from_chars(at, end, *value);
    fits = error == std::errc{} && behind != at && *value > 0;
    at = behind;
  }
  if (!fits || at != end)
    fail(ErrorCode::kUsage,
         "\"{}\" is no engine of chained elements; write its chains, their length and the weights of an element, as 16x12x8192", text);
  if (made.length > kLongestChain)
    fail(ErrorCode::kUsage, "\"{}\": chains of {} elements; give {} at most", text, made.length, kLongestChain);
  return made;
}

std::string text_of(const ChainDimensions& dimensions) {
  return fmt::format("{}x{}x{}", dimensions.chains, dimensions.length, dimensions.words);
}

namespace {

// The shortest chains whose elements hold that many weights of the layer; empty: none do.
std::string what_would_do(const RecurrentSize& size, const ChainDimensions& given, int64_t units, int64_t boards) {
  for (int64_t length = given.length + 1; length <= kLongestChain; ++length) {
    const ChainDimensions longer{given.chains, length, given.words};
    ChainBoard large{.name = "", .dsp = 1e9, .bram36 = 1e9, .uram = 1e9, .clock_hz = 1};
    large.dimensions = longer;
    RecurrentSize same = size;
    same.units = units;
    const auto row = best_row(same, large, boards, static_cast<int>(kPortBits / given.chains));
    if (row) return fmt::format("; {} would do, on a board that has room for it", text_of(longer));
  }
  return "; no length of chain would do";
}

}  // namespace

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
  const std::optional<ChainDimensions>& given = board.dimensions;
  if (given && given->chains != chains)
    fail(ErrorCode::kUsage, "an engine of {} has {} chains; {} of them fill the port of {} bits with elements of {}: begin with {}x",
         text_of(*given), given->chains, chains, kPortBits, bits, chains);
  for (int64_t length = given ? given->length : 1; length <= (given ? given->length : kLongestChain); ++length) {
    BoardRow row{.boards = boards, .elements = chains * length};
    const ChainProduct forward{size.fed_back, units, row.elements}, back{size.cells, projected ? size.fed_back : units, row.elements};
    int64_t forward_feed = feed_cycles(forward), back_feed = feed_cycles(back);
    if (projected) {  // its inputs are divided over the units
      forward_feed += feed_cycles({divided_up(size.cells, size.gates), size.fed_back, row.elements});
      back_feed += feed_cycles({divided_up(size.fed_back, size.gates), size.cells, row.elements});
    }
    row.words = size.directions * std::max(forward_feed, back_feed);
    if (given && row.words > given->words) {
      if (why != nullptr)
        *why = fmt::format("an engine of {} puts {} weights on its fullest element, which holds {}{}", text_of(*given), row.words,
                           given->words, what_would_do(size, *given, units, boards));
      return std::nullopt;
    }
    const int64_t elements = size.gates * row.elements, words = given ? given->words : row.words;
    row.dsp = static_cast<double>(elements * (bits == 16 ? 1 : kDspOfFloat));
    row.blocks = static_cast<double>(board.uram > 0 ? divided_up(elements, 64 / bits) * divided_up(words, 4096)
                                                    : elements * bram18_blocks({bits, words}));
    if (row.dsp > slices || row.blocks > blocks_there) {
      const double lack = std::max(row.dsp / slices, row.blocks / blocks_there);
      if (why != nullptr && (why->empty() || lack < least_lack)) {
        least_lack = lack;
        *why = row.dsp > slices ? fmt::format("chains of {} take {:.0f} slices, of {:.0f}", length, row.dsp, slices)
                                : fmt::format("chains of {} keep {} weights an element and take {:.0f} {}, of {:.0f}", length, words,
                                              row.blocks, board.uram > 0 ? "UltraRAM" : "half blocks", blocks_there);
      }
      continue;
    }
    const StepWait wait{.latency = kElementLatency, .chains = chains, .samples = samples};
    row.forward_cycles = samples * forward_feed + (projected ? 0 : exposed_cycles(forward, wait));
    row.back_cycles = samples * back_feed + (projected ? 0 : exposed_cycles(back, wait));
    const auto gathered = [&](int64_t from_others) {
      if (boards == 1) return 0.0;
      return static_cast<double>(boards - 1) *
             (static_cast<double>(samples * from_others * bits) / board.cable_bits_per_second + board.cable_seconds);
    };
    row.forward_seconds = static_cast<double>(row.forward_cycles) / board.clock_hz + gathered(units);
    row.back_seconds = static_cast<double>(row.back_cycles) / board.clock_hz + gathered(size.gates * units);
    if (!best || row.forward_seconds + row.back_seconds < best->forward_seconds + best->back_seconds) best = row;
  }
  return best;
}

}  // namespace millrace
