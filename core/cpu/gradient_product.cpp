#include "core/cpu/gradient_product.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/blocked_product.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/matrix_product.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

// Columns of the right side that stay in the second level of cache while all rows of c pass, and rows of the left one that stay in the
// first while those columns pass.
constexpr int64_t kNearColumns = 384, kNearRows = 32;
// Blocks of columns that are multiplied at once.
constexpr int64_t kMostBlocks = 3;

struct BlockRange {
  int64_t begin = 0, end = 0;
};
BlockRange share_of(int64_t blocks, const Team& team) {
  return {blocks * team.thread / team.threads, blocks * (team.thread + 1) / team.threads};
}

struct BlockPacking {
  const float* from;  // of the first block's first column
  int64_t stride, rows, columns;
  float* to;  // [block][row][lane], zeros behind the last column
};

template <int kVector>
inline void pack_blocks(const BlockPacking& packing) {
  // Few rows at a time: each is then read in one go, and what is written of a block lies together.
  constexpr int64_t kTogether = 8;
  for (int64_t first = 0; first < packing.rows; first += kTogether) {
    const int64_t end = std::min(first + kTogether, packing.rows);
    const float* from = packing.from;
    float* to = packing.to;
    for (int64_t left = packing.columns; left > 0; left -= kVector, from += kVector, to += packing.rows * kVector)
      for (int64_t row = first; row < end; ++row) {
        float* const block = to + row * kVector;
        if (left >= kVector) {
          std::memcpy(block, from + row * packing.stride, kVector * sizeof(float));
          continue;
        }
        for (int64_t lane = 0; lane < kVector; ++lane) block[lane] = lane < left ? from[row * packing.stride + lane] : 0.0f;
      }
  }
}
inline void pack_wide_blocks(const BlockPacking& packing) { pack_blocks<16>(packing); }
inline void pack_narrow_blocks(const BlockPacking& packing) { pack_blocks<8>(packing); }

// These blocks of a side, `rows` of it from `first` on; `to` holds all blocks.
void pack_side(int64_t lanes, const GradientProduct::Side& side, int64_t columns, int64_t first, int64_t rows, BlockRange blocks,
               float* to) {
  if (blocks.begin == blocks.end) return;
  const BlockPacking packing{.from = side.data + first * side.stride + blocks.begin * lanes,
                             .stride = side.stride,
                             .rows = rows,
                             .columns = std::min(columns, blocks.end * lanes) - blocks.begin * lanes,
                             .to = to + blocks.begin * rows * lanes};
  if (lanes == 16)
    vectorised<pack_wide_blocks>(packing);
  else
    vectorised<pack_narrow_blocks>(packing);
}

// One stretch of rows, packed, into some rows of c.
struct RowStretch {
  int64_t lanes, rows;
  const float* left;   // of the first block
  const float* right;  // of the first block
  int64_t count;       // rows of c
  int64_t columns;
  float* c;
  int64_t stride;
  bool adds;

  BlockedProduct product(int64_t row, int64_t column) const {
    return {.a = left + row * rows,
            .a_block = rows * lanes,
            .b = right + column * rows,
            .b_block = rows * lanes,
            .c = c + row * stride + column,
            .c_block = lanes,
            .c_row = stride,
            .rows = lanes,
            .depth = rows,
            .columns = lanes,
            .transposed = true,
            .adds = adds};
  }
  // A block of rows by up to three of columns, of which not all are there.
  void multiply_edge(int64_t row, int64_t column) const {
    alignas(64) float sums[16 * 16 * kMostBlocks];
    const int64_t blocks = std::min(kMostBlocks, blocks_of(columns - column, lanes)), width = blocks * lanes;
    const int64_t high = std::min(lanes, count - row), wide = std::min(width, columns - column);
    BlockedProduct edge = product(row, column);
    float* const to = edge.c;
    if (adds)
      for (int64_t i = 0; i < lanes; ++i)
        for (int64_t j = 0; j < width; ++j) sums[i * width + j] = i < high && j < wide ? to[i * stride + j] : 0.0f;
    edge.c = sums;
    edge.c_row = edge.columns = width;
    multiply_blocked(lanes, edge);
    for (int64_t i = 0; i < high; ++i) std::copy_n(sums + i * width, wide, to + i * stride);
  }
  // Columns of whole blocks. Behind them are two blocks or three, the last one not full: one alone would take as long.
  int64_t whole_columns() const {
    const int64_t blocks = blocks_of(columns, lanes);
    if (columns % lanes == 0) return columns;
    return std::max<int64_t>(0, blocks - (blocks % kMostBlocks == 0 ? kMostBlocks : 2)) * lanes;
  }
  void multiply() const {
    const int64_t whole_rows = count / lanes * lanes, whole = whole_columns();
    for (int64_t column = 0; column < whole; column += kNearColumns)
      for (int64_t row = 0; row < whole_rows; row += kNearRows) {
        BlockedProduct some = product(row, column);
        some.rows = std::min(kNearRows, whole_rows - row), some.columns = std::min(kNearColumns, whole - column);
        multiply_blocked(lanes, some);
      }
    if (whole < columns)
      for (int64_t row = 0; row < whole_rows; row += lanes) multiply_edge(row, whole);
    if (whole_rows < count)
      for (int64_t column = 0; column < columns; column += kMostBlocks * lanes) multiply_edge(whole_rows, column);
  }
};

}  // namespace

size_t GradientProduct::scratch_bytes() const {
  // Each right side begins a block of its own.
  return to_size(kNearDepth * lanes_ * (blocks_of(left_, lanes_) + blocks_of(right_, lanes_) + kMostRights - 1)) * sizeof(float);
}

void GradientProduct::run(int threads, const Side& left, int64_t rows, std::span<const Right> rights, bool adds, float* scratch) const {
  int64_t left_columns = 0, right_columns = 0;
  for (const Right& right : rights) left_columns = std::max(left_columns, right.left), right_columns += right.columns;
  MILLRACE_CHECK(left_columns <= left_ && right_columns <= right_ && std::ssize(rights) <= kMostRights,
                 "a product of {} by {} columns in {} matrices, made for {} by {} in {}", left_columns, right_columns, rights.size(), left_,
                 right_, kMostRights);
  // Older processors have neither registers for these tiles nor fused multiply-adds.
  if (loop_instruction_set() < InstructionSet::kAvx2) {
    for (const Right& right : rights)
      multiply_matrices({.data = left.data, .stride = left.stride, .transposed = true},
                        {.data = right.from.data, .stride = right.from.stride}, right.left, right.columns, rows, adds, right.to,
                        right.stride);
    return;
  }
  const int64_t left_blocks = blocks_of(left_columns, lanes_);
  run_team(threads, [&](const Team& team) {
    const BlockRange own = share_of(left_blocks, team);
    for (int64_t first = 0; first < rows; first += kNearDepth) {
      const int64_t count = std::min(kNearDepth, rows - first);
      float* const packed_left = scratch;
      float* packed_right = scratch + left_blocks * lanes_ * kNearDepth;
      pack_side(lanes_, left, left_columns, first, count, own, packed_left);
      for (const Right& right : rights) {
        const int64_t blocks = blocks_of(right.columns, lanes_);
        pack_side(lanes_, right.from, right.columns, first, count, share_of(blocks, team), packed_right);
        packed_right += blocks * lanes_ * kNearDepth;
      }
      team.wait();
      packed_right = scratch + left_blocks * lanes_ * kNearDepth;
      for (const Right& right : rights) {
        const int64_t row = own.begin * lanes_, high = std::min(own.end * lanes_, right.left) - row;
        if (high > 0)
          RowStretch{.lanes = lanes_,
                     .rows = count,
                     .left = packed_left + row * count,
                     .right = packed_right,
                     .count = high,
                     .columns = right.columns,
                     .c = right.to + row * right.stride,
                     .stride = right.stride,
                     .adds = adds || first > 0}
              .multiply();
        packed_right += blocks_of(right.columns, lanes_) * lanes_ * kNearDepth;
      }
      team.wait();
    }
  });
}

}  // namespace millrace::cpu
