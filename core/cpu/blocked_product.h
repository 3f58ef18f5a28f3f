// Products of matrices that lie as blocked activations do: [block of columns][row][column in the block], a block as wide as a vector.
// Winograd's convolutions and the gradients of recurrent layers (gradient_product.h) are made of them. Internal to core/cpu.
//
//   multiply_blocked(8, {.a = v, .a_block = tiles * 8, .b = u, .b_block = inputs * 8, .c = m, .c_block = tiles * 8,
//                        .c_row = 8, .rows = tiles, .depth = inputs, .columns = outputs});
//
// c[row][column] (+)= sum over k of a[row][k] * b[k][column], or of a[k][row] * b[k][column]. Each sum is made by itself, in ascending k,
// one fused multiply-add after the other where the processor has them: it does not depend on how many rows or columns are asked for at
// once. One thread.
#pragma once

#include <cstdint>

namespace millrace::cpu {

struct BlockedProduct {
  const float* a = nullptr;
  int64_t a_block = 0;  // floats from one block to the next
  const float* b = nullptr;
  int64_t b_block = 0;
  float* c = nullptr;
  int64_t c_block = 0;
  int64_t c_row = 0;  // floats from one row to the next: `lanes` in blocks, more in a matrix whose rows lie together
  // Rows and columns of c. Columns are whole blocks, rows a multiple of rows_of_tile(); where a is transposed rows are whole blocks too,
  // else the depth is.
  int64_t rows = 0, depth = 0, columns = 0;
  bool transposed = false;  // a[k][row]
  bool adds = false;
};

// `lanes`: 16 or 8, the width of a block.
void multiply_blocked(int64_t lanes, const BlockedProduct& product);
int64_t rows_of_tile(int64_t lanes);
inline int64_t blocks_of(int64_t columns, int64_t lanes) { return (columns + lanes - 1) / lanes; }
// Three blocks of b of so many rows stay in the first level of cache while the rows of c pass: a greater depth is taken in parts.
inline constexpr int64_t kNearDepth = 256;

}  // namespace millrace::cpu
