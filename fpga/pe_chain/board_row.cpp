#include "fpga/pe_chain/board_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "fpga/common/arithmetic/divided_up.h"

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

// One way of a step.
struct WayOfStep {
  StepSettings settings;
  int64_t beats = 0;  // of a pass's load
  int64_t feeds = 0;  // of all samples
};
// What a board with so many units makes.
StepExtent extent_of(const RecurrentSize& size, int64_t units) {
  if (units == size.cells) return {.units = units, .projected = size.fed_back};
  return {.units = units, .projected = size.features_of(units), .all_units = size.cells, .all_features = size.fed_back};
}
WayOfStep way_of(const PeChainHardware& hardware, const RecurrentSize& size, int64_t units, int64_t samples, bool back) {
  WayOfStep way{.settings = hardware.projects
                                ? settings_of(hardware, extent_of(size, units), back)
                                : StepSettings{.recurrent = settings_of(hardware, units, true, size.cells), .projection = {}}};
  way.beats = load_beats(hardware, way.settings, back);
  way.feeds = samples * way.settings.fullest();
  return way;
}

int64_t cycles_of(const PeChainHardware& hardware, const WayOfStep& way, int64_t samples, bool back, bool alone) {
  return alone ? lone_step_cycles(hardware, way.settings, samples, back) : steady_step_cycles(hardware, way.settings, samples, back);
}

}  // namespace

std::optional<BoardRow> best_row(const RecurrentSize& size, const ChainBoard& board, int64_t boards, int bits, std::string* why,
                                 int64_t samples) {
  const int64_t filling = kPortBits / bits, grain = size.cells / std::gcd(size.cells, size.fed_back);
  const int64_t units = size.units > 0 ? size.units : grain * divided_up(size.cells / grain, boards);
  samples *= size.directions;
  const bool projected = size.fed_back != size.cells;
  if (why != nullptr) why->clear();
  if (size.cells / grain < boards) {
    if (why != nullptr)
      *why = fmt::format("{} cells projected to {} divide in the same proportion into {} parts at most", size.cells, size.fed_back,
                         size.cells / grain);
    return std::nullopt;
  }
  const double slices = std::floor(board.dsp * kUsableDsp);
  const double urams_there = std::floor(board.uram * kUsableMemory), halves_there = std::floor(2 * board.bram36 * kUsableMemory);
  std::optional<BoardRow> best;
  double least_lack = 0;
  const std::optional<ChainDimensions>& given = board.dimensions;
  if (given && given->chains != filling)
    fail(ErrorCode::kUsage, "an engine of {} has {} chains; {} of them fill the port of {} bits with elements of {}: begin with {}x",
         text_of(*given), given->chains, filling, kPortBits, bits, filling);
  const int64_t fewest = given ? filling : projected ? size.gates() : 2;
  for (int64_t chains = filling; chains >= fewest && !best; chains /= 2)
    for (int64_t length = given ? given->length : 1; length <= (given ? given->length : kLongestChain); ++length) {
      BoardRow row{.boards = boards, .chains = chains, .elements = chains * length};
      if (units / row.elements > kMostSlices) {
        if (why != nullptr && chains == filling && why->empty())
          *why = fmt::format("{} chains of {} take {} rounds of all elements, of {}", chains, length, units / row.elements, kMostSlices);
        continue;
      }
      PeChainHardware hardware = chain_for({.cell = size.cell,
                                            .element_bits = bits,
                                            .samples = samples,
                                            .products = {{units, size.cells}},
                                            .chains = chains,
                                            .projected = projected ? size.features_of(units) : 0,
                                            .all_units = units == size.cells ? 0 : size.cells,
                                            .all_features = units == size.cells ? 0 : size.fed_back},
                                           length);
      const WayOfStep ways[] = {way_of(hardware, size, units, samples, false), way_of(hardware, size, units, samples, true)};
      row.words = size.directions * std::max(ways[0].settings.fullest(), ways[1].settings.fullest());
      row.forward_load_beats = size.directions * ways[0].beats;
      row.back_load_beats = size.directions * ways[1].beats;
      if (given && row.words > given->words) {
        if (why != nullptr)
          *why = fmt::format("an engine of {} puts {} weights on its fullest element, which holds {}{}", text_of(*given), row.words,
                             given->words, what_would_do(size, *given, units, boards));
        return std::nullopt;
      }
      hardware.words = given ? given->words : std::max<int64_t>(2, row.words);
      hardware.ultra = board.uram > 0;
      const ChainUse use = chain_use_of(hardware);
      row.dsp = static_cast<double>(use.dsp);
      row.urams = static_cast<double>(use.urams);
      row.half_blocks = static_cast<double>(use.gate_blocks + use.weight_blocks);
      const double lack = std::max({row.dsp / slices, row.half_blocks / halves_there, hardware.ultra ? row.urams / urams_there : 0});
      if (lack > 1) {
        if (why != nullptr && chains == filling && (why->empty() || lack < least_lack)) {
          least_lack = lack;
          *why = row.dsp > slices ? fmt::format("{} chains of {} take {:.0f} slices, {} of them for the gates, of {:.0f}", chains, length,
                                                row.dsp, use.dsp - hardware.elements() * (bits / 16), slices)
                 : row.urams > urams_there ? fmt::format("{} chains of {} keep {} weights an element and take {:.0f} UltraRAM, of {:.0f}",
                                                         chains, length, hardware.words, row.urams, urams_there)
                                           : fmt::format(
                                                 "{} chains of {} keep {} weights an element and take {:.0f} half blocks, {} of them for "
                                                 "the gates, of {:.0f}",
                                                 chains, length, hardware.words, row.half_blocks, use.gate_blocks, halves_there);
        }
        continue;
      }
      const auto gathered = [&](int64_t from_others) {
        if (boards == 1) return 0.0;
        return static_cast<double>(boards - 1) *
               (static_cast<double>(samples * from_others * bits) / board.cable_bits_per_second + board.cable_seconds);
      };
      const double features = projected ? gathered(size.features_of(units)) : 0;  // of either way, besides what units give out
      const double outputs = features + gathered(units), errors = features + gathered(size.gates() * units);
      // No step is shorter than its feeds.
      const double at_least = static_cast<double>(ways[0].feeds + ways[1].feeds) / board.clock_hz + outputs + errors;
      if (best && at_least >= best->forward_seconds + best->back_seconds) continue;
      const bool alone = units != size.cells;
      row.forward_cycles = cycles_of(hardware, ways[0], samples, /*back=*/false, alone);
      row.back_cycles = cycles_of(hardware, ways[1], samples, /*back=*/true, alone);
      row.forward_seconds = static_cast<double>(row.forward_cycles) / board.clock_hz + outputs;
      row.back_seconds = static_cast<double>(row.back_cycles) / board.clock_hz + errors;
      if (!best || row.forward_seconds + row.back_seconds < best->forward_seconds + best->back_seconds) best = row;
    }
  return best;
}

}  // namespace millrace
