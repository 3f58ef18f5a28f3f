// Compiled so that a product and its sum become one instruction, as packed_product.cpp is.
#include "core/cpu/blocked_product.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/cpu/lanes.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

namespace {

// Part of the depth: what a tile of c adds before it returns to memory.
struct Stretch {
  const BlockedProduct* product;
  int64_t begin, end;
  bool adds;
};

// One step of the depth for M rows by N blocks of columns; row m of a lies at a[m * kRowStep].
template <int kVector, size_t M, size_t N, int64_t kRowStep, typename Vector>
inline void add_products(const float* a, const float* b, int64_t b_block, Vector* sums) {
  Vector column[N];
  for_constants<N>([&](auto n) { load(b + static_cast<int64_t>(n()) * b_block, column[n()]); });
  // Read once for all rows: without this the compiler reads them again for each.
  if constexpr (M > 1) asm volatile("" ::: "memory");
  for_constants<M>([&](auto m) {
    const float factor = a[static_cast<int64_t>(m()) * kRowStep];
    for_constants<N>([&](auto n) { sums[m() * N + n()] += factor * column[n()]; });
  });
}

// M rows by N blocks of columns. While their sums are made they stay in registers (tests/core/cpu/check_registers.py).
template <int kVector, size_t M, size_t N, bool kTransposed>
inline void multiply_tile(const Stretch& stretch, int64_t row, int64_t column) {
  using Vector = typename VectorOf<kVector>::Type;
  const BlockedProduct& p = *stretch.product;
  const int64_t c_block = p.c_block, c_row = p.c_row;
  float* const c = p.c + column * c_block + row * c_row;
  const int64_t begin = stretch.begin, end = stretch.end;
  const auto place = [=](size_t at) { return c + static_cast<int64_t>(at % N) * c_block + static_cast<int64_t>(at / N) * c_row; };
  Vector sums[M * N];
  for_constants<M * N>([&](auto at) { sums[at()] = Vector{}; });
  if (stretch.adds) for_constants<M * N>([&](auto at) { load(place(at()), sums[at()]); });
  const float* b = p.b + column * p.b_block + begin * kVector;
  const int64_t b_block = p.b_block;
  if constexpr (kTransposed) {
    const float* a = p.a + row / kVector * p.a_block + row % kVector + begin * kVector;
    for (int64_t k = begin; k < end; ++k, a += kVector, b += kVector) add_products<kVector, M, N, 1>(a, b, b_block, sums);
  } else {
    const float* block = p.a + begin / kVector * p.a_block + row * kVector;
    const int64_t a_block = p.a_block;
    for (int64_t k = begin; k < end; k += kVector, block += a_block) {
      const float* a = block;
#pragma GCC unroll 1  // unrolled, the sums would no longer fit into the registers
      for (const float* const block_end = block + kVector; a != block_end; ++a, b += kVector)
        add_products<kVector, M, N, kVector>(a, b, b_block, sums);
    }
  }
  for_constants<M * N>([&](auto at) { store(place(at()), sums[at()]); });
}

template <int kVector>
constexpr size_t kRowsOfTile = kVector == 16 ? 8 : 4;

template <int kVector, size_t N, bool kTransposed>
inline void multiply_rows(const Stretch& stretch, int64_t column) {
  constexpr size_t kRows = kRowsOfTile<kVector>;
  for (int64_t row = 0; row < stretch.product->rows; row += static_cast<int64_t>(kRows))
    vectorised<multiply_tile<kVector, kRows, N, kTransposed>>(stretch, row, column);
}

// Columns in groups of three blocks; where one would be left alone, the last four in two groups of two.
template <int kVector, bool kTransposed>
inline void multiply_columns(const Stretch& stretch) {
  const int64_t blocks = stretch.product->columns / kVector;
  int64_t column = 0;
  while (column < blocks) {
    const int64_t left = blocks - column;
    if (left == 1) {
      multiply_rows<kVector, 1, kTransposed>(stretch, column);
      column += 1;
    } else if (left == 2 || left == 4) {
      multiply_rows<kVector, 2, kTransposed>(stretch, column);
      column += 2;
    } else {
      multiply_rows<kVector, 3, kTransposed>(stretch, column);
      column += 3;
    }
  }
}

template <int kVector>
void multiply(const BlockedProduct& product) {
  for (int64_t begin = 0; begin < product.depth; begin += kNearDepth) {
    const Stretch stretch{&product, begin, std::min(begin + kNearDepth, product.depth), product.adds || begin > 0};
    if (product.transposed)
      multiply_columns<kVector, true>(stretch);
    else
      multiply_columns<kVector, false>(stretch);
  }
}

}  // namespace

void multiply_blocked(int64_t lanes, const BlockedProduct& product) {
  MILLRACE_CHECK(lanes == 16 || lanes == 8, "blocks of {} lanes", lanes);
  const bool whole = product.columns % lanes == 0 && product.rows % rows_of_tile(lanes) == 0 &&
                     (product.transposed ? product.rows : product.depth) % lanes == 0;
  MILLRACE_CHECK(whole, "a product of {} x {} x {} is not one of whole blocks of {}", product.rows, product.depth, product.columns, lanes);
  if (lanes == 16)
    multiply<16>(product);
  else
    multiply<8>(product);
}

int64_t rows_of_tile(int64_t lanes) { return static_cast<int64_t>(lanes == 16 ? kRowsOfTile<16> : kRowsOfTile<8>); }

}  // namespace millrace::cpu
