// The mappings of weights and states are one-to-one over the whole space of tiles, and what a warp does at once in shared
// memory meets no bank twice.
#include "gpu/rnn/mapping.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/rnn/performance_model.h"
#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

std::string name_of(const FmaTile& tile, int threads) {
  return "FMA tile " + std::to_string(tile.rows) + " rows, " + std::to_string(tile.columns) + " columns, groups of " +
         std::to_string(tile.group) + ", " + std::to_string(threads) + " threads";
}

// Every (row, column) of a block has one holder, and the holder's place is that (row, column).
void fma_tiles() {
  for (int rows = 1; rows <= 16; ++rows)
    for (int columns = 4; columns <= 32; columns += columns < 16 ? 4 : 16)
      for (int group = 1; group <= 32; group *= 2)
        for (const auto& [threads, slices] :
             {std::pair(32, 1), std::pair(96, 3), std::pair(128, 2), std::pair(256, 1), std::pair(256, 4)}) {
          if (threads / group % slices != 0) continue;
          const FmaTile tile{rows, columns, group, 1};
          const int all = (columns + 2 * kVector) * group * slices;  // two spilled accesses per thread and row
          const int per_thread = columns_per_thread(tile, slices, all);
          const int block_rows = rows_per_block(tile, slices, threads);
          std::vector<char> seen(static_cast<std::size_t>(block_rows * all));
          std::vector<char> spilled(static_cast<std::size_t>(rows * spilled_columns(tile, slices, all) * threads));
          bool one_to_one = true;
          for (int thread = 0; thread < threads; ++thread)
            for (int r = 0; r < rows; ++r)
              for (int j = 0; j < per_thread; ++j) {
                const int row = row_of(tile, slices, thread, r);
                const int column = column_of(tile, slices, thread, j);
                const WeightHolder back = holder_of(tile, slices, row, column);
                char& place = seen[static_cast<std::size_t>(row * all + column)];
                one_to_one = one_to_one && row < block_rows && column < all && place == 0 && back.thread == thread && back.row == r &&
                             back.column == j;
                place = 1;
                if (j < columns) continue;
                char& word = spilled.at(static_cast<std::size_t>(spilled_word(tile, threads, thread, r, j)));
                one_to_one = one_to_one && word == 0;
                word = 1;
              }
          one_to_one = one_to_one && std::all_of(seen.begin(), seen.end(), [](char c) { return c == 1; }) &&
                       std::all_of(spilled.begin(), spilled.end(), [](char c) { return c == 1; });
          expect(one_to_one, name_of(tile, threads) + ": one-to-one");
        }
}

// Banks that the threads of one quarter of a warp (eight 16-byte accesses at a time) use for different words.
int conflicts(const std::vector<int>& first_words) {
  int worst = 1;
  for (std::size_t quarter = 0; quarter < 32; quarter += 8) {
    std::vector<std::set<int>> words(32);
    for (std::size_t i = quarter; i < quarter + 8; ++i)
      for (int v = 0; v < kVector; ++v) words[static_cast<std::size_t>((first_words[i] + v) % 32)].insert(first_words[i] + v);
    for (const auto& bank : words) worst = std::max(worst, static_cast<int>(bank.size()));
  }
  return worst;
}

void fma_banks() {
  for (int group = 1; group <= 32; group *= 2)
    for (const int columns : {8, 16, 32}) {
      const FmaTile tile{4, columns, group, 2};
      for (int j = 0; j < columns; j += kVector) {
        std::vector<int> states;
        std::vector<int> weights;
        for (int thread = 0; thread < 32; ++thread) {
          states.push_back(column_of(tile, 1, thread, j));
          weights.push_back(spilled_word(tile, 128, thread, 1, columns + j));
        }
        expect(conflicts(states) == 1, name_of(tile, 32) + ": states in " + std::to_string(conflicts(states)) + " turns");
        expect(conflicts(weights) == 1, name_of(tile, 32) + ": spilled weights");
      }
      expect(state_stride(tile, 1, columns * group + 1) % kVector == 0, "16-byte rows of states");
    }
}

void matrix_tiles() {
  for (int rows = 1; rows <= 4; ++rows)
    for (int depth = 1; depth <= 16; depth += 3)
      for (const int slices : {1, 2, 4, 8})
        for (const int warps : {4, 8, 16}) {
          if (warps % slices != 0) continue;
          const MatrixTile tile{rows, depth, 1};
          const int threads = warps * 32;
          const int block_rows = rows_per_block(tile, slices, threads);
          const int columns = depth * slices * 16;
          std::vector<char> seen(static_cast<std::size_t>(block_rows * columns));
          bool one_to_one = holds_columns(tile, slices, columns) && !holds_columns(tile, slices, columns + 1);
          for (int thread = 0; thread < threads; ++thread)
            for (int r = 0; r < rows; ++r)
              for (int d = 0; d < depth; ++d)
                for (int i = 0; i < 8; ++i) {
                  const int row = row_of(tile, slices, thread, r, i);
                  const int column = column_of(tile, slices, thread, d, i);
                  const FragmentHolder back = holder_of(tile, slices, row, column);
                  char& place = seen.at(static_cast<std::size_t>(row * columns + column));
                  one_to_one = one_to_one && place == 0 && back.thread == thread && back.row == r && back.depth == d && back.index == i;
                  place = 1;
                }
          one_to_one = one_to_one && std::all_of(seen.begin(), seen.end(), [](char c) { return c == 1; });
          expect(one_to_one, "matrix tile " + std::to_string(rows) + " x " + std::to_string(depth) + ", " + std::to_string(slices) +
                                 " slices, " + std::to_string(warps) + " warps: one-to-one");
        }
  // The other fragments' places are one-to-one too, and a fragment's load of states meets every bank once.
  std::set<std::pair<int, int>> right;
  std::set<std::pair<int, int>> sums;
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const device::Place in_right = device::place_in_right(lane, i);
      const device::Holder back = device::holder_in_right(in_right.row, in_right.column);
      expect(back.lane == lane && back.index == i, "right operand, lane " + std::to_string(lane));
      right.insert({in_right.row, in_right.column});
      const device::Place in_sums = device::place_in_sums(lane, i);
      sums.insert({in_sums.row, in_sums.column});
    }
  expect(right.size() == 128 && sums.size() == 128, "fragments cover their matrices");
  for (int columns = 1; columns <= 4096; ++columns) {
    const int stride = matrix_state_stride(columns);
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane) {
      const device::Place at = device::place_in_right(lane, 0);
      banks.insert((at.column * stride + at.row / 2) % 32);
    }
    if (banks.size() != 32 || stride * 2 < columns) expect(false, "states of " + std::to_string(columns) + " columns: bank conflicts");
  }
}

void blocks() {
  for (const int sides : {1, 2})
    for (const int unit_tiles : {1, 7, 128})
      for (const int sample_tiles : {1, 3}) {
        std::set<std::vector<int>> places;
        for (int block = 0; block < sides * unit_tiles * sample_tiles; ++block) {
          const BlockPlace at = place_of_block(block, unit_tiles, sample_tiles);
          expect(at.side < sides && at.sample_tile < sample_tiles && at.unit_tile < unit_tiles, "block in range");
          places.insert({at.side, at.sample_tile, at.unit_tile});
        }
        expect(places.size() == static_cast<std::size_t>(sides * unit_tiles * sample_tiles), "every block has a place of its own");
        std::set<int> samples;
        for (int round = 0; round < 3; ++round)
          for (int tile = 0; tile < sample_tiles; ++tile)
            for (int n = 0; n < 4; ++n) samples.insert(sample_of(round, sample_tiles, tile, 4, n));
        expect(samples.size() == static_cast<std::size_t>(12 * sample_tiles) && *samples.rbegin() == 12 * sample_tiles - 1, "samples");
      }
  for (const int gates : {1, 2, 3, 4})
    for (int row = 0; row < 60; ++row)
      expect(row_of_unit(gates, unit_of_row(gates, row), gate_of_row(gates, row)) == row, "rows, units and gates");
}

// GRNN's space: what the model keeps has room for every weight in registers, with the tile that the kernels would use.
void whole_space() {
  for (const Cell cell : {Cell::kLstm, Cell::kGruTwoBarriers})
    for (const int hidden : {64, 256, 1024})
      for (const Candidate& candidate : ranked_mappings({cell, hidden, 4}, titan_v())) {
        const Mapping& mapping = candidate.mapping;
        const Footprint use = footprint_of({cell, hidden, 4}, mapping);
        const FmaTile tile{use.outputs_per_thread, rounded_up(ceil_of(hidden, mapping.group_size), kVector), mapping.group_size,
                           mapping.tile_height};
        const int gates = cell == Cell::kLstm ? 4 : 2;
        const bool fits = rows_per_block(tile, 1, use.threads) >= mapping.tile_width * gates && spilled_columns(tile, 1, hidden) == 0 &&
                          state_stride(tile, 1, hidden) >= hidden &&
                          tile.rows * ceil_of(hidden, mapping.group_size) * (cell == Cell::kLstm ? 1.0 : 1.5) <= 224;
        if (!fits) expect(false, name_of(tile, use.threads) + ": does not hold " + std::to_string(hidden) + " units");
      }
  expect(true, "the whole space");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  fma_tiles();
  fma_banks();
  matrix_tiles();
  blocks();
  whole_space();
  return report("mapping");
}
