// Products with a matrix that many products share, laid out for them once: the weights of recurrent layers. Internal to
// core/cpu.
//
//   PackedMatrix weight(depth, {{hidden, 0}, {hidden, hidden}}, lanes);   // columns in blocks, and where each block lands
//   weight.pack(w, /*column_stride=*/depth, /*depth_stride=*/1);          // whenever w changed
//   multiply_packed(a, rows, weight, weight.all(), c, Into::kAdd);
//
// c[row][column] (+)= sum over k of a[row][k] * w[k][column]. Each sum is made by itself, in ascending k, one fused
// multiply-add after the other where the processor has them: it depends neither on how many rows or columns are asked for
// at once nor on threads. Columns lie in panels of a vector's width, so that rows few or many run at the speed of the
// memory or of the arithmetic. With PackedAs::kHalves a weight is kept rounded to bf16, two of its depth side by side, and multiplied as
// the float that it then is: half as much to read, which is what few rows take their time for. One thread; callers divide the panels.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/index.h"
#include "core/cpu/memory.h"

namespace millrace::cpu {

// Where rows are: row r begins at (r / group) * group_stride + (r % group) * stride.
struct RowSteps {
  int64_t group = 1;
  int64_t group_stride = 0;
  int64_t stride = 0;

  static RowSteps plain(int64_t stride) { return {1, stride, 0}; }
  int64_t offset(int64_t row) const { return row / group * group_stride + row % group * stride; }
};
struct ConstRows {
  const float* data = nullptr;
  RowSteps steps;
};
struct Rows {
  float* data = nullptr;
  RowSteps steps;
};

enum class Into { kOverwrite, kAdd };
enum class PackedAs { kFloats, kHalves };

// Half open.
struct PanelRange {
  int64_t begin = 0, end = 0;
};

class PackedMatrix {
 public:
  // So many columns, of which the first lands in column `first` of the product.
  struct Block {
    int64_t columns = 0;
    int64_t first = 0;
  };

  PackedMatrix() = default;
  // `lanes`: 16 or 8 floats; halves come with 16 and AVX-512.
  PackedMatrix(int64_t depth, const std::vector<Block>& blocks, int64_t lanes, PackedAs as = PackedAs::kFloats);

  // w[k][column] is source[column * column_stride + k * depth_stride], columns counted through all blocks.
  void pack(const float* source, int64_t column_stride, int64_t depth_stride) { pack(source, column_stride, depth_stride, all()); }
  // Some panels of it, for one of several threads.
  void pack(const float* source, int64_t column_stride, int64_t depth_stride, PanelRange panels);

  int64_t depth() const { return depth_; }
  int64_t lanes() const { return lanes_; }
  bool halves() const { return as_ == PackedAs::kHalves; }
  PanelRange all() const { return {0, panels()}; }
  int64_t panels() const { return static_cast<int64_t>(panels_.size()); }
  // The share of one of several threads.
  PanelRange share(int64_t thread, int64_t threads) const { return {panels() * thread / threads, panels() * (thread + 1) / threads}; }
  int64_t bytes() const { return static_cast<int64_t>(buffer_.bytes()); }

  struct Panel {
    int64_t column = 0;  // of the product
    int64_t width = 0;   // up to `lanes`; the rest is zero
    int64_t source = 0;  // column of the source
  };
  const Panel& panel(int64_t index) const { return fast_item(panels_, index); }
  const float* data(int64_t panel) const { return reinterpret_cast<const float*>(buffer_.data()) + panel * panel_words(); }
  // Of halves: [pair of depth][lane], the first of the pair in the lower bits.
  const uint32_t* pairs(int64_t panel) const { return reinterpret_cast<const uint32_t*>(buffer_.data()) + panel * panel_words(); }

 private:
  int64_t panel_words() const { return (halves() ? (depth_ + 1) / 2 : depth_) * lanes_; }

  int64_t depth_ = 0;
  int64_t lanes_ = 0;
  PackedAs as_ = PackedAs::kFloats;
  std::vector<Panel> panels_;
  Buffer buffer_;
};

// With a bias, by column of the product, each sum gets it at the end.
void multiply_packed(const ConstRows& a, int64_t rows, const PackedMatrix& w, PanelRange panels, const Rows& c, Into into,
                     const float* bias = nullptr);

}  // namespace millrace::cpu
