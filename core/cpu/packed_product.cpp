// Compiled so that a product and its sum become one instruction: every one of them runs here and nowhere else, and their
// order is written down, so the bits depend on the instruction set alone.
#include "core/cpu/packed_product.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/check.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

PackedMatrix::PackedMatrix(int64_t depth, const std::vector<Block>& blocks, int64_t lanes) : depth_(depth), lanes_(lanes) {
  MILLRACE_CHECK(lanes == 16 || lanes == 8, "panels of {} lanes", lanes);
  int64_t source = 0;
  for (const Block& block : blocks) {
    for (int64_t column = 0; column < block.columns; column += lanes)
      panels_.push_back({block.first + column, std::min(lanes, block.columns - column), source + column});
    source += block.columns;
  }
  buffer_ = Buffer(static_cast<size_t>(panels() * depth_ * lanes_) * sizeof(float));
}

namespace {

template <int kVector>
struct VectorOf {
  typedef float Type __attribute__((vector_size(kVector * sizeof(float))));
  typedef int32_t Mask __attribute__((vector_size(kVector * sizeof(float))));
};

#if !defined(__clang__)
// Swaps the squares of `kSide` lanes off the diagonal, then larger ones.
template <int kVector, int kSide, typename Vector, typename Mask>
inline void swap_squares(Vector* rows) {
  if constexpr (kSide < kVector) {
    Mask upper, lower;  // lanes of the first row, then those of the second
    for (int lane = 0; lane < kVector; ++lane) {
      upper[lane] = (lane & kSide) != 0 ? kVector + lane - kSide : lane;
      lower[lane] = (lane & kSide) != 0 ? kVector + lane : lane + kSide;
    }
    for (int row = 0; row < kVector; ++row) {
      if ((row & kSide) != 0) continue;
      const Vector a = rows[row], b = rows[row + kSide];
      rows[row] = __builtin_shuffle(a, b, upper);
      rows[row + kSide] = __builtin_shuffle(a, b, lower);
    }
    swap_squares<kVector, 2 * kSide, Vector, Mask>(rows);
  }
}

// Rows become columns: to[column * kVector + row] = from[row * stride + column].
template <int kVector>
inline void transpose_square(const float* from, int64_t stride, float* to) {
  using Vector = typename VectorOf<kVector>::Type;
  std::array<Vector, static_cast<size_t>(kVector)> rows;
  for (int row = 0; row < kVector; ++row) std::memcpy(rows.data() + row, from + row * stride, sizeof(Vector));
  swap_squares<kVector, 1, Vector, typename VectorOf<kVector>::Mask>(rows.data());
  std::memcpy(to, rows.data(), sizeof rows);
}
#endif

struct PanelSource {
  const float* from;  // of the panel's first column
  int64_t column_stride, depth_stride, width, depth;
};

template <int kVector>
inline void pack_panel(const PanelSource& source, float* to) {
  int64_t k = 0;
#if !defined(__clang__)  // which shuffles by constants alone
  if (source.width == kVector && source.depth_stride == 1)
    for (; k + kVector <= source.depth; k += kVector) transpose_square<kVector>(source.from + k, source.column_stride, to + k * kVector);
#endif
  if (source.width == kVector && source.column_stride == 1)
    for (; k < source.depth; ++k) std::memcpy(to + k * kVector, source.from + k * source.depth_stride, kVector * sizeof(float));
  for (; k < source.depth; ++k)
    for (int64_t column = 0; column < source.width; ++column)
      to[k * kVector + column] = source.from[column * source.column_stride + k * source.depth_stride];
}

inline void pack_wide(const PanelSource& source, float* to) { pack_panel<16>(source, to); }
inline void pack_narrow(const PanelSource& source, float* to) { pack_panel<8>(source, to); }

}  // namespace

void PackedMatrix::pack(const float* source, int64_t column_stride, int64_t depth_stride, PanelRange panels) {
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const PanelSource columns{source + panel(p).source * column_stride, column_stride, depth_stride, panel(p).width, depth_};
    float* const to = reinterpret_cast<float*>(buffer_.data()) + p * depth_ * lanes_;
    if (lanes_ == 16)
      vectorised<pack_wide>(columns, to);
    else
      vectorised<pack_narrow>(columns, to);
  }
}

namespace {

struct Product {
  ConstRows a;
  Rows c;
  const PackedMatrix* w;
  Into into;
  const float* bias;
  int64_t begin, end;  // of the depth: a stretch that does not begin at 0 goes on from the sums in c

  bool goes_on() const { return begin > 0; }
  bool ends() const { return end == w->depth(); }
};

// The sums of M rows and N panels stay in registers.
template <int kVector, int M, int N>
inline void multiply_tile(const Product& product, int64_t row, int64_t panel) {
  using Vector = typename VectorOf<kVector>::Type;
  const int64_t depth = product.w->depth();
  const float* const w = product.w->data(panel);
  std::array<const float*, static_cast<size_t>(M)> a;
  for (size_t m = 0; m < M; ++m) a[m] = product.a.data + product.a.steps.offset(row + static_cast<int64_t>(m));
  Vector sums[static_cast<size_t>(M)][static_cast<size_t>(N)];
  for (size_t m = 0; m < M; ++m)
    for (size_t n = 0; n < N; ++n) {
      sums[m][n] = Vector{};
      if (!product.goes_on()) continue;
      const PackedMatrix::Panel& place = product.w->panel(panel + static_cast<int64_t>(n));
      const float* const c = product.c.data + product.c.steps.offset(row + static_cast<int64_t>(m)) + place.column;
      if (place.width == kVector)
        std::memcpy(&sums[m][n], c, sizeof(Vector));
      else
        for (int64_t lane = 0; lane < place.width; ++lane) sums[m][n][lane] = c[lane];
    }
  for (int64_t k = product.begin; k < product.end; ++k) {
    Vector column[static_cast<size_t>(N)];
    for (size_t n = 0; n < N; ++n) std::memcpy(&column[n], w + (static_cast<int64_t>(n) * depth + k) * kVector, sizeof(Vector));
    for (size_t m = 0; m < M; ++m)
      for (size_t n = 0; n < N; ++n) sums[m][n] += a[m][k] * column[n];
  }
  const float* const bias = product.ends() ? product.bias : nullptr;
  for (size_t m = 0; m < M; ++m) {
    float* const c = product.c.data + product.c.steps.offset(row + static_cast<int64_t>(m));
    for (size_t n = 0; n < N; ++n) {
      const PackedMatrix::Panel& place = product.w->panel(panel + static_cast<int64_t>(n));
      if (place.width == kVector) {
        Vector value = sums[m][n];
        Vector other;
        if (bias != nullptr) {
          std::memcpy(&other, bias + place.column, sizeof(Vector));
          value += other;
        }
        if (product.into == Into::kAdd) {
          std::memcpy(&other, c + place.column, sizeof(Vector));
          value += other;
        }
        std::memcpy(c + place.column, &value, sizeof(Vector));
        continue;
      }
      for (int64_t lane = 0; lane < place.width; ++lane) {
        float value = sums[m][n][lane];
        if (bias != nullptr) value += bias[place.column + lane];
        if (product.into == Into::kAdd) value += c[place.column + lane];
        c[place.column + lane] = value;
      }
    }
  }
}

// Panels in groups of N, what remains in groups of half of it, and so on.
template <int kVector, int M, int N>
inline void multiply_rows(const Product& product, int64_t row, int64_t panel, int64_t end) {
  for (; panel + N <= end; panel += N) multiply_tile<kVector, M, N>(product, row, panel);
  if constexpr (N > 1) multiply_rows<kVector, M, N / 2>(product, row, panel, end);
}

// For many rows: a stretch of a few panels stays in the cache while all rows pass. Sums to which something else is to be
// added cannot wait in c, so they are made in one go.
template <int kVector, int M, int N>
inline void multiply_block(const Product& whole, int64_t rows, PanelRange panels) {
  constexpr int64_t kStretch = 512;
  const int64_t stretch = whole.into == Into::kAdd ? whole.end : kStretch;
  for (int64_t begin = 0; begin < whole.end; begin += stretch) {
    Product product = whole;
    product.begin = begin;
    product.end = std::min(begin + stretch, whole.end);
    for (int64_t panel = panels.begin; panel < panels.end; panel += N)
      for (int64_t row = 0; row + M <= rows; row += M) multiply_rows<kVector, M, N>(product, row, panel, std::min(panel + N, panels.end));
  }
}

// Tiles that fill the registers of AVX-512: 32 of 16 lanes.
inline void multiply_wide(const Product& product, int64_t rows, PanelRange panels) {
  constexpr int64_t kMost = 8;
  int64_t row = rows / kMost * kMost;
  multiply_block<16, kMost, 3>(product, row, panels);
  for (; rows - row >= 4; row += 4) multiply_rows<16, 4, 6>(product, row, panels.begin, panels.end);
  switch (rows - row) {
    case 3: return multiply_rows<16, 3, 8>(product, row, panels.begin, panels.end);
    case 2: return multiply_rows<16, 2, 8>(product, row, panels.begin, panels.end);
    case 1: return multiply_rows<16, 1, 8>(product, row, panels.begin, panels.end);
    default: return;
  }
}

// The same for 16 registers of 8 lanes.
inline void multiply_narrow(const Product& product, int64_t rows, PanelRange panels) {
  constexpr int64_t kMost = 4;
  int64_t row = rows / kMost * kMost;
  multiply_block<8, kMost, 3>(product, row, panels);
  switch (rows - row) {
    case 3: return multiply_rows<8, 3, 4>(product, row, panels.begin, panels.end);
    case 2: return multiply_rows<8, 2, 4>(product, row, panels.begin, panels.end);
    case 1: return multiply_rows<8, 1, 8>(product, row, panels.begin, panels.end);
    default: return;
  }
}

}  // namespace

void multiply_packed(const ConstRows& a, int64_t rows, const PackedMatrix& w, PanelRange panels, const Rows& c, Into into,
                     const float* bias) {
  const Product product{a, c, &w, into, bias, 0, w.depth()};
  if (w.lanes() == 16)
    vectorised<multiply_wide>(product, rows, panels);
  else
    vectorised<multiply_narrow>(product, rows, panels);
}

}  // namespace millrace::cpu
