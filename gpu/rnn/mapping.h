// Which thread holds which weight, where a state lies in shared memory, and what a block needs of both. Pure functions for
// host and device: kernels take their indices from here, tests hold them to be one-to-one and free of bank conflicts.
//
//   constexpr FmaTile tile{.rows = 4, .columns = 32, .group = 32, .height = 1};
//   row_of(tile, slices, thread, r), column_of(tile, slices, thread, j)   // the weight in register [r][j] of a thread
//   holder_of(tile, slices, row, column)                                  // and back
//
// A block multiplies its resident rows of weights by the states of `height` samples. Rows come unit by unit, the gates of a
// unit side by side, so that one block has all that its units' new states need.
//   FMA tiles: the threads of a group share rows and take columns in turn, four at a time (one 16-byte access each); they
//   bring their sums together by exchanges. Columns beyond the registers lie in shared memory.
//   Matrix tiles: a warp holds 16-row fragments.
// In both, `slices` groups or warps share the same rows and take the columns in turn; their sums meet in shared memory.
#pragma once

#include "gpu/rnn/device/fragments.h"
#include "gpu/rnn/device/scalar.h"

namespace millrace::rnn {

constexpr MILLRACE_HOST_DEVICE int rounded_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }
constexpr MILLRACE_HOST_DEVICE int ceil_of(int value, int divisor) { return (value + divisor - 1) / divisor; }
constexpr MILLRACE_HOST_DEVICE int least(int a, int b) { return a < b ? a : b; }
constexpr MILLRACE_HOST_DEVICE int greatest(int a, int b) { return a > b ? a : b; }

inline constexpr int kVector = 4;  // columns that one access of shared memory brings

struct FmaTile {
  int rows;     // of one group of threads
  int columns;  // of one thread, in registers; a multiple of four
  int group;    // threads: a power of two up to 32
  int height;   // samples
};

struct WeightHolder {
  int thread;
  int row;     // of the thread's rows
  int column;  // of the thread's columns; beyond tile.columns it lies in shared memory
};

// Groups that share rows are neighbours: group = row group * slices + slice.
constexpr MILLRACE_HOST_DEVICE int row_of(FmaTile tile, int slices, int thread, int row) {
  return thread / tile.group / slices * tile.rows + row;
}
constexpr MILLRACE_HOST_DEVICE int column_of(FmaTile tile, int slices, int thread, int column) {
  const int turn = column / kVector * slices + thread / tile.group % slices;
  return (turn * tile.group + thread % tile.group) * kVector + column % kVector;
}
constexpr MILLRACE_HOST_DEVICE WeightHolder holder_of(FmaTile tile, int slices, int row, int column) {
  const int lane = column / kVector % tile.group;
  const int turn = column / kVector / tile.group;
  return {(row / tile.rows * slices + turn % slices) * tile.group + lane, row % tile.rows, turn / slices * kVector + column % kVector};
}
// Columns of one thread when a row has `columns`, in registers and beyond.
constexpr MILLRACE_HOST_DEVICE int columns_per_thread(FmaTile tile, int slices, int columns) {
  return ceil_of(columns, kVector * tile.group * slices) * kVector;
}
constexpr MILLRACE_HOST_DEVICE int spilled_columns(FmaTile tile, int slices, int columns) {
  return greatest(0, columns_per_thread(tile, slices, columns) - tile.columns);
}
// A sample's states in shared memory, in words; the padding holds zeros.
constexpr MILLRACE_HOST_DEVICE int state_stride(FmaTile tile, int slices, int columns) {
  return greatest(tile.columns, columns_per_thread(tile, slices, columns)) * tile.group * slices;
}
constexpr MILLRACE_HOST_DEVICE int rows_per_block(FmaTile tile, int slices, int threads) {
  return threads / tile.group / slices * tile.rows;
}
// Word of a spilled weight, counted from where spilled weights begin: a warp reads 16 bytes per thread side by side.
constexpr MILLRACE_HOST_DEVICE int spilled_word(FmaTile tile, int threads, int thread, int row, int column) {
  const int beyond = column - tile.columns;
  return ((beyond / kVector * tile.rows + row) * threads + thread) * kVector + beyond % kVector;
}

struct MatrixTile {
  int rows;     // 16-row fragments of one warp
  int depth;    // 16-column fragments of one warp
  int samples;  // groups of eight samples
};

struct FragmentHolder {
  int thread;
  int row;    // fragment among the warp's rows
  int depth;  // fragment among the warp's columns
  int index;  // of the lane's eight elements
};

// Warps that share rows are neighbours, as groups above.
constexpr MILLRACE_HOST_DEVICE int row_of(MatrixTile tile, int slices, int thread, int row, int index) {
  return (thread / 32 / slices * tile.rows + row) * device::kFragmentRows + device::place_in_left(thread % 32, index).row;
}
constexpr MILLRACE_HOST_DEVICE int column_of(MatrixTile, int slices, int thread, int depth, int index) {
  return (depth * slices + thread / 32 % slices) * device::kFragmentDepth + device::place_in_left(thread % 32, index).column;
}
constexpr MILLRACE_HOST_DEVICE FragmentHolder holder_of(MatrixTile tile, int slices, int row, int column) {
  const device::Holder in = device::holder_in_left(row % 16, column % 16);
  const int warp = row / 16 / tile.rows * slices + column / 16 % slices;
  return {warp * 32 + in.lane, row / 16 % tile.rows, column / 16 / slices, in.index};
}
constexpr MILLRACE_HOST_DEVICE int rows_per_block(MatrixTile tile, int slices, int threads) {
  return threads / 32 / slices * tile.rows * device::kFragmentRows;
}
constexpr MILLRACE_HOST_DEVICE bool holds_columns(MatrixTile tile, int slices, int columns) {
  return tile.depth * slices * device::kFragmentDepth >= columns;
}
// A sample's states in shared memory, in words of two: eight samples' rows begin four banks apart, so that the 32 lanes of
// a fragment's load meet 32 banks.
constexpr MILLRACE_HOST_DEVICE int matrix_state_stride(int columns) {
  const int words = rounded_up(columns, device::kFragmentDepth) / 2;
  return words + (36 - words % 32) % 32;
}

// Rows of a block's weights in the order of its sums, and the gate and unit that they stand for.
constexpr MILLRACE_HOST_DEVICE int unit_of_row(int gates, int row) { return row / gates; }
constexpr MILLRACE_HOST_DEVICE int gate_of_row(int gates, int row) { return row % gates; }
constexpr MILLRACE_HOST_DEVICE int row_of_unit(int gates, int unit, int gate) { return unit * gates + gate; }

// Columns that each block of a cluster takes of a product that they divide: whole fragments, which are whole 16-byte accesses too.
constexpr MILLRACE_HOST_DEVICE int columns_in_cluster(int columns, int blocks) {
  return blocks == 1 ? columns : rounded_up(ceil_of(columns, blocks), device::kFragmentDepth);
}

// A block's place: which direction, which samples, which units.
struct BlockPlace {
  int side;
  int sample_tile;
  int unit_tile;
};
constexpr MILLRACE_HOST_DEVICE BlockPlace place_of_block(int block, int unit_tiles, int sample_tiles) {
  const int rest = block % (unit_tiles * sample_tiles);
  return {block / (unit_tiles * sample_tiles), rest / unit_tiles, rest % unit_tiles};
}
constexpr MILLRACE_HOST_DEVICE int sample_of(int round, int sample_tiles, int sample_tile, int height, int index) {
  return (round * sample_tiles + sample_tile) * height + index;
}

}  // namespace millrace::rnn
