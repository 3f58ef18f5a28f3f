// Compiled so that a product and its sum become one instruction: every one of them runs here and nowhere else, and their
// order is written down, so the bits depend on the instruction set alone.
#include "core/cpu/packed_product.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/cpu/lanes.h"
#include "core/cpu/vector_math.h"

namespace millrace::cpu {

PackedMatrix::PackedMatrix(int64_t depth, const std::vector<Block>& blocks, int64_t lanes, PackedAs as)
    : depth_(depth), lanes_(lanes), as_(as) {
  MILLRACE_CHECK(lanes == 16 || (lanes == 8 && !halves()), "panels of {} lanes", lanes);
  int64_t source = 0;
  for (const Block& block : blocks) {
    for (int64_t column = 0; column < block.columns; column += lanes)
      panels_.push_back({block.first + column, std::min(lanes, block.columns - column), source + column});
    source += block.columns;
  }
  buffer_ = Buffer(to_size(panels() * panel_words()) * sizeof(float));
}

namespace {

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

// The nearest bf16, ties to even; what is no number stays none.
inline uint32_t rounded_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return value == value ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : (bits >> 16) | 0x40u;
}

inline void pack_halves(const PanelSource& source, uint32_t* to) {
  constexpr int64_t kLanes = 16, kTogether = 32;  // of the depth
  float some[kLanes * kTogether];
  for (int64_t k = 0; k < source.depth; k += kTogether) {
    const int64_t depth = std::min(kTogether, source.depth - k);
    std::memset(some, 0, sizeof some);
    pack_panel<kLanes>({source.from + k * source.depth_stride, source.column_stride, source.depth_stride, source.width, depth}, some);
    for (int64_t pair = 0; pair < (depth + 1) / 2; ++pair)
      for (int64_t lane = 0; lane < kLanes; ++lane)
        to[(k / 2 + pair) * kLanes + lane] =
            rounded_to_half(some[2 * pair * kLanes + lane]) | rounded_to_half(some[(2 * pair + 1) * kLanes + lane]) << 16;
  }
}

}  // namespace

void PackedMatrix::pack(const float* source, int64_t column_stride, int64_t depth_stride, PanelRange panels) {
  for (int64_t p = panels.begin; p < panels.end; ++p) {
    const PanelSource columns{source + panel(p).source * column_stride, column_stride, depth_stride, panel(p).width, depth_};
    float* const to = reinterpret_cast<float*>(buffer_.data()) + p * panel_words();
    if (halves())
      vectorised<pack_halves>(columns, reinterpret_cast<uint32_t*>(to));
    else if (lanes_ == 16)
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

// Where the sums of M rows and N panels begin.
template <int kVector, size_t M, size_t N, typename Vector>
inline void begin_sums(const Product& product, int64_t row, int64_t panel, Vector* sums) {
  std::memset(sums, 0, M * N * sizeof(Vector));
  if (!product.goes_on()) return;
  for (size_t m = 0; m < M; ++m) {
    const float* const c = product.c.data + product.c.steps.offset(row + static_cast<int64_t>(m));
    for (size_t n = 0; n < N; ++n) {
      const PackedMatrix::Panel& place = product.w->panel(panel + static_cast<int64_t>(n));
      if (place.width == kVector)
        std::memcpy(sums + m * N + n, c + place.column, sizeof(Vector));
      else
        for (int64_t lane = 0; lane < place.width; ++lane) sums[m * N + n][lane] = c[place.column + lane];
    }
  }
}

template <int kVector, size_t M, size_t N, typename Vector>
inline void end_sums(const Product& product, int64_t row, int64_t panel, const Vector* sums) {
  const float* const bias = product.ends() ? product.bias : nullptr;
  for (size_t m = 0; m < M; ++m) {
    float* const c = product.c.data + product.c.steps.offset(row + static_cast<int64_t>(m));
    for (size_t n = 0; n < N; ++n) {
      const PackedMatrix::Panel& place = product.w->panel(panel + static_cast<int64_t>(n));
      if (place.width == kVector) {
        Vector value = sums[m * N + n];
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
        float value = sums[m * N + n][lane];
        if (bias != nullptr) value += bias[place.column + lane];
        if (product.into == Into::kAdd) value += c[place.column + lane];
        c[place.column + lane] = value;
      }
    }
  }
}

// M rows by N panels. While their sums are made they stay in registers: no loop of the compiler's stands between an index and its
// number, and a test looks for stores on the stack in the machine code (tests/core/cpu/check_registers.py).
template <int kVector, size_t M, size_t N>
inline void multiply_tile(const Product& product, int64_t row, int64_t panel) {
  using Vector = typename VectorOf<kVector>::Type;
  const int64_t panel_floats = product.w->depth() * kVector;
  const float* a[M];
  for (size_t m = 0; m < M; ++m) a[m] = product.a.data + product.a.steps.offset(row + static_cast<int64_t>(m)) + product.begin;
  Vector outside[M * N];
  begin_sums<kVector, M, N>(product, row, panel, outside);

  Vector sums[M * N];
  const float* from[M];
  for_constants<M>([&](auto m) { from[m] = a[m]; });
  for_constants<M * N>([&](auto at) { sums[at] = outside[at]; });
  const float* w = product.w->data(panel) + product.begin * kVector;
  for (int64_t k = 0, count = product.end - product.begin; k < count; ++k, w += kVector) {
    Vector column[N];
    for_constants<N>([&](auto n) { std::memcpy(&column[n], w + static_cast<int64_t>(n()) * panel_floats, sizeof(Vector)); });
    // Read once for all rows: without this the compiler reads them again for each.
    if constexpr (M > 1) asm volatile("" ::: "memory");
    for_constants<M>([&](auto m) {
      const float factor = from[m][k];
      for_constants<N>([&](auto n) { sums[m() * N + n()] += factor * column[n]; });
    });
  }
  for_constants<M * N>([&](auto at) { outside[at] = sums[at]; });
  end_sums<kVector, M, N>(product, row, panel, outside);
}

// The same of halves: each pair is two floats, one in the upper half of its bits, the other moved there.
template <size_t M, size_t N>
inline void multiply_halves(const Product& product, int64_t row, int64_t panel) {
  using Vector = VectorOf<16>::Type;
  using Words = VectorOf<16>::Mask;
  const float* a[M];
  for (size_t m = 0; m < M; ++m) a[m] = product.a.data + product.a.steps.offset(row + static_cast<int64_t>(m)) + product.begin;
  Vector outside[M * N];
  begin_sums<16, M, N>(product, row, panel, outside);

  Vector sums[M * N];
  const float* from[M];
  const uint32_t* w[N];
  for_constants<M>([&](auto m) { from[m] = a[m]; });
  for_constants<N>([&](auto n) { w[n] = product.w->pairs(panel + static_cast<int64_t>(n())) + product.begin / 2 * 16; });
  for_constants<M * N>([&](auto at) { sums[at] = outside[at]; });
  const int64_t count = product.end - product.begin;
  for (int64_t k = 0; k + 1 < count; k += 2) {
    for_constants<N>([&](auto n) {
      Words pair;
      std::memcpy(&pair, w[n] + k * 8, sizeof pair);
      const auto first = (Vector)(pair << 16);
      for_constants<M>([&](auto m) { sums[m() * N + n()] += from[m][k] * first; });
      const auto second = (Vector)(pair & static_cast<int32_t>(0xffff0000u));
      for_constants<M>([&](auto m) { sums[m() * N + n()] += from[m][k + 1] * second; });
    });
  }
  if (count % 2 != 0)
    for_constants<N>([&](auto n) {
      Words pair;
      std::memcpy(&pair, w[n] + (count - 1) * 8, sizeof pair);
      const auto first = (Vector)(pair << 16);
      for_constants<M>([&](auto m) { sums[m() * N + n()] += from[m][count - 1] * first; });
    });
  for_constants<M * N>([&](auto at) { outside[at] = sums[at]; });
  end_sums<16, M, N>(product, row, panel, outside);
}

// Halves come with AVX-512 alone.
template <size_t M, size_t N>
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
[[gnu::target("arch=x86-64-v4"), gnu::flatten]]
#endif
void multiply_halves_wide(const Product& product, int64_t row, int64_t panel) {
  multiply_halves<M, N>(product, row, panel);
}

// Panels in groups of N, what remains in smaller ones. Each tile is a function of its own, in a version per instruction set: together
// they would take the compiler minutes.
template <int kVector, size_t M, size_t N>
inline void multiply_rows(const Product& product, int64_t row, int64_t panel, int64_t end) {
  for (; panel + static_cast<int64_t>(N) <= end; panel += static_cast<int64_t>(N)) {
    if constexpr (kVector == 16) {
      if (product.w->halves()) {
        multiply_halves_wide<M, N>(product, row, panel);
        continue;
      }
    }
    vectorised<multiply_tile<kVector, M, N>>(product, row, panel);
  }
  if constexpr (N > 1) multiply_rows<kVector, M, (N > 3 ? N / 2 : N - 1)>(product, row, panel, end);
}

struct RowRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// For many rows: a stretch of a few panels stays in the cache while all rows pass. Sums to which something else is to be
// added cannot wait in c, so they are made in one go.
template <int kVector, size_t M, size_t N>
inline void multiply_block(const Product& whole, RowRange rows, PanelRange panels) {
  constexpr int64_t kStretch = 512;
  constexpr auto kRows = static_cast<int64_t>(M), kPanels = static_cast<int64_t>(N);
  const int64_t stretch = whole.into == Into::kAdd ? whole.end : kStretch;
  for (int64_t begin = 0; begin < whole.end; begin += stretch) {
    Product product = whole;
    product.begin = begin;
    product.end = std::min(begin + stretch, whole.end);
    for (int64_t panel = panels.begin; panel < panels.end; panel += kPanels)
      for (int64_t row = rows.begin; row + kRows <= rows.end; row += kRows)
        multiply_rows<kVector, M, N>(product, row, panel, std::min(panel + kPanels, panels.end));
  }
}

// Tiles for the registers of AVX-512: 32 of 16 lanes.
struct WideTiles {
  static constexpr int kVector = 16;
  static constexpr size_t kRows = 8, kPanels = 3;
  static int64_t left(int64_t rows) { return rows % 8; }
  static void multiply(const Product& product, int64_t row, int64_t left, PanelRange panels) {
    switch (left) {
      case 7: return multiply_rows<16, 7, 3>(product, row, panels.begin, panels.end);
      case 6: return multiply_rows<16, 6, 4>(product, row, panels.begin, panels.end);
      case 5: return multiply_rows<16, 5, 4>(product, row, panels.begin, panels.end);
      case 4: return multiply_rows<16, 4, 6>(product, row, panels.begin, panels.end);
      case 3: return multiply_rows<16, 3, 4>(product, row, panels.begin, panels.end);
      case 2: return multiply_rows<16, 2, 6>(product, row, panels.begin, panels.end);
      case 1: return multiply_rows<16, 1, 8>(product, row, panels.begin, panels.end);
      default: return;
    }
  }
};

// The same for 16 registers of 8 lanes.
struct NarrowTiles {
  static constexpr int kVector = 8;
  static constexpr size_t kRows = 4, kPanels = 3;
  // Five or six rows at the end in one go: a row left alone would cost almost what four do.
  static int64_t left(int64_t rows) { return rows < 4 || rows % 4 == 0 || rows % 4 == 3 ? rows % 4 : rows % 4 + 4; }
  static void multiply(const Product& product, int64_t row, int64_t left, PanelRange panels) {
    switch (left) {
      case 6: return multiply_rows<8, 6, 2>(product, row, panels.begin, panels.end);
      case 5: return multiply_rows<8, 5, 2>(product, row, panels.begin, panels.end);
      case 3: return multiply_rows<8, 3, 3>(product, row, panels.begin, panels.end);
      case 2: return multiply_rows<8, 2, 4>(product, row, panels.begin, panels.end);
      case 1: return multiply_rows<8, 1, 8>(product, row, panels.begin, panels.end);
      default: return;
    }
  }
};

// So many panels at a time that those which all rows have passed are still near when the rows that are left pass: the weights come from
// afar once.
template <typename Tiles>
inline void multiply_near(const Product& product, RowRange rows, PanelRange panels) {
  constexpr int64_t kNear = int64_t{1} << 20;  // bytes
  constexpr auto kPanels = static_cast<int64_t>(Tiles::kPanels);
  const int64_t groups = kNear / (kPanels * product.w->depth() * product.w->lanes() * static_cast<int64_t>(sizeof(float)));
  const int64_t left = Tiles::left(rows.size());
  const int64_t together = rows.size() > left && left > 0 ? kPanels * std::max<int64_t>(1, groups) : panels.end - panels.begin;
  for (int64_t panel = panels.begin; panel < panels.end; panel += together) {
    const PanelRange some{panel, std::min(panel + together, panels.end)};
    multiply_block<Tiles::kVector, Tiles::kRows, Tiles::kPanels>(product, {rows.begin, rows.end - left}, some);
    Tiles::multiply(product, rows.end - left, left, some);
  }
}

// Few rows at a time: they stay near while all panels pass, and what is written of each goes on where it ended. All rows at once would
// write a few numbers of each, and come back to it with the next panels.
template <typename Tiles>
inline void multiply_all(const Product& product, int64_t rows, PanelRange panels) {
  constexpr int64_t kTogether = 64;
  for (RowRange some; some.end < rows; some.begin = some.end) {
    // None are left for a round of their own.
    some.end = rows - some.begin < 2 * kTogether ? rows : some.begin + kTogether;
    multiply_near<Tiles>(product, some, panels);
  }
}

}  // namespace

void multiply_packed(const ConstRows& a, int64_t rows, const PackedMatrix& w, PanelRange panels, const Rows& c, Into into,
                     const float* bias) {
  const Product product{a, c, &w, into, bias, 0, w.depth()};
  if (w.lanes() == 16)
    multiply_all<WideTiles>(product, rows, panels);
  else
    multiply_all<NarrowTiles>(product, rows, panels);
}

}  // namespace millrace::cpu
