#include "core/cpu/tile_product.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>

#include "core/base/index.h"

// Instructions of this file's functions; each is reached where has_tiles() alone.
#define MILLRACE_TILES __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,amx-tile,amx-bf16")))

namespace millrace::cpu {

namespace {

constexpr int64_t kTileStep = 64;  // bytes from row to row
constexpr int64_t kTileFloats = kTileBlock * kTileBlock;

alignas(64) constexpr std::array<Half, kTileNumbers> kNoTile{};

// As LDTILECFG reads it.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start = 0;
  uint8_t unused[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t count, int64_t bytes) {
    rows[tile] = static_cast<uint8_t>(count);
    row_bytes[tile] = static_cast<uint16_t>(bytes);
  }
};
static_assert(sizeof(TileShapes) == 64);

// Tiles 0 to 3 are sums (by left, then by right factor), 4 and 5 left factors, 6 and 7 right ones.
#define MILLRACE_MULTIPLY_FOUR \
  _tile_dpbf16ps(0, 4, 6);     \
  _tile_dpbf16ps(1, 4, 7);     \
  _tile_dpbf16ps(2, 5, 6);     \
  _tile_dpbf16ps(3, 5, 7)

MILLRACE_TILES inline __m512i half_pair(__m512 low, __m512 high) { return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)); }

// Numbers of `low` and `high` in turns.
MILLRACE_TILES inline __m512i in_turns(__m512 low, __m512 high) {
  alignas(64) static constexpr std::array<uint16_t, 32> kOrder = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                                  8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder.data()), half_pair(low, high));
}

// Sixteen rows of sixteen dwords become columns.
MILLRACE_TILES inline void transpose_dwords(__m512i* rows) {
  __m512i next[16];
  for (int i = 0; i < 16; i += 2) {
    next[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    next[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(next[i], next[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(next[i], next[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(next[i + 1], next[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(next[i + 1], next[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    next[i] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0x88);
    next[i + 4] = _mm512_shuffle_i32x4(rows[i], rows[i + 4], 0xdd);
    next[i + 8] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0x88);
    next[i + 12] = _mm512_shuffle_i32x4(rows[i + 8], rows[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0x88);
    rows[i + 4] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(next[i], next[i + 8], 0xdd);
    rows[i + 12] = _mm512_shuffle_i32x4(next[i + 4], next[i + 12], 0xdd);
  }
}

MILLRACE_TILES inline __m512 row_or_zeros(const float* row) { return row == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(row); }

// Sums of one tile on their way: a row is a sample.
MILLRACE_TILES void finish_tile(const float* sums, int64_t rows, const TileFinish& finish, const float* bias, float* to) {
  const __m512 zero = _mm512_setzero_ps(), slope = _mm512_set1_ps(finish.slope), offset = row_or_zeros(bias);
  for (int64_t row = 0; row < rows; ++row) {
    float* const place = to + row * finish.steps.sample;
    __m512 value = _mm512_add_ps(_mm512_load_ps(sums + row * kTileBlock), offset);
    if (finish.adds) value = _mm512_add_ps(value, _mm512_loadu_ps(place));
    if (finish.activates) {
      const __m512 positive = _mm512_max_ps(value, zero);
      value = finish.slope == 0 ? positive : _mm512_add_ps(positive, _mm512_mul_ps(slope, _mm512_min_ps(value, zero)));
    }
    _mm512_storeu_ps(place, value);
  }
}

// The taps that reach something from either of two tiles of rows, and what each reads.
struct Reached {
  int64_t count = 0;
  std::array<const Half*, kMostTaps> rows[2];  // of the first pair of blocks; no tile stands for nothing
  std::array<int64_t, kMostTaps> step[2];      // to the next pair
  std::array<int64_t, kMostTaps> tap;
};

struct RowTile {
  int64_t position = 0, chunk = 0;
};

void find_reached(const TileProduct& p, const RowTile (&tiles)[2], Reached& reached) {
  reached.count = 0;
  for (int64_t tap = 0; tap < p.taps; ++tap) {
    const int32_t at[2] = {p.reach[tiles[0].position * p.taps + tap], p.reach[tiles[1].position * p.taps + tap]};
    if (at[0] < 0 && at[1] < 0) continue;
    const auto next = to_size(reached.count++);
    reached.tap[next] = tap;
    for (size_t i = 0; i < 2; ++i) {
      const bool there = at[i] >= 0;
      reached.rows[i][next] =
          there ? p.from + at[i] * p.rows.row_numbers() + tiles[i].chunk * p.rows.height * 2 * kTileBlock : kNoTile.data();
      reached.step[i][next] = there ? p.positions * p.rows.row_numbers() : 0;
    }
  }
}

// GCC's own _tile_loadconfig tells the compiler of eight of the bytes that it reads, so the others would not be written.
void load_shapes(const TileShapes& shapes) { asm volatile("ldtilecfg %0" : : "m"(shapes)); }
// Apart: a destructor does not keep the attribute.
MILLRACE_TILES void release_tiles() { _tile_release(); }

}  // namespace

TileScope::TileScope(const TileRows& rows, Use use) {
  TileShapes shapes;
  for (int tile = 0; tile < 4; ++tile) shapes.set(tile, use == Use::kRows ? rows.height : kTileBlock, kTileStep);
  for (int tile = 4; tile < 6; ++tile) {
    if (use == Use::kRows)
      shapes.set(tile, rows.height, kTileStep);
    else
      shapes.set(tile, kTileBlock, rows.depth * 2);
  }
  for (int tile = 6; tile < 8; ++tile) shapes.set(tile, use == Use::kRows ? kTileBlock : rows.depth / 2, kTileStep);
  load_shapes(shapes);
}

TileScope::~TileScope() { release_tiles(); }

MILLRACE_TILES void pack_rows(const TileRows& rows, const MapSteps& steps, const float* first, const float* second, Stretch positions,
                              Half* to) {
  for (int64_t sample = 0; sample < rows.padded(); ++sample)
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      Half* const row = to + position * rows.row_numbers() + sample * 2 * kTileBlock;
      const int64_t at = sample * steps.sample + position * steps.position;
      const bool there = sample < rows.samples;
      _mm512_store_si512(
          row, half_pair(row_or_zeros(there ? first + at : nullptr), row_or_zeros(there && second != nullptr ? second + at : nullptr)));
    }
}

MILLRACE_TILES void pack_depth(const TileRows& rows, const MapSteps& steps, const float* block, bool left, Stretch positions, Half* to) {
  for (int64_t position = positions.begin; position < positions.end; ++position)
    for (int64_t deep = 0; deep < rows.deep; ++deep) {
      Half* const tile = to + position * rows.deep_numbers() + deep * kTileNumbers;
      const auto sample_row = [&](int64_t at) {
        const int64_t sample = deep * rows.depth + at;
        return at < rows.depth && sample < rows.samples ? block + sample * steps.sample + position * steps.position : nullptr;
      };
      __m512i pairs[16];
      for (int64_t pair = 0; pair < 16; ++pair)
        pairs[pair] = in_turns(row_or_zeros(sample_row(2 * pair)), row_or_zeros(sample_row(2 * pair + 1)));
      if (left) transpose_dwords(pairs);
      for (int64_t row = 0; row < 16; ++row) _mm512_store_si512(tile + row * 32, pairs[row]);
    }
}

MILLRACE_TILES void pack_weight(const float* first, const float* second, Half* to) {
  const float* const blocks[2] = {first, second};
  for (int64_t row = 0; row < 16; ++row) {
    const float* const block = blocks[row / 8];
    const float* const pair = block == nullptr ? nullptr : block + row % 8 * 2 * kTileBlock;
    _mm512_store_si512(to + row * 32, in_turns(row_or_zeros(pair), row_or_zeros(pair == nullptr ? nullptr : pair + kTileBlock)));
  }
}

MILLRACE_TILES void pack_weight_back(const float* first, const float* second, Half* to) {
  __m512i rows[16];
  for (int64_t read = 0; read < 16; ++read)
    rows[read] = half_pair(row_or_zeros(first == nullptr ? nullptr : first + read * kTileBlock),
                           row_or_zeros(second == nullptr ? nullptr : second + read * kTileBlock));
  transpose_dwords(rows);
  for (int64_t row = 0; row < 16; ++row) _mm512_store_si512(to + row * 32, rows[row]);
}

MILLRACE_TILES void multiply_tiles(const TileProduct& p, Stretch made, const TileFinish& finish) {
  alignas(64) float sums[4][kTileFloats];
  Reached reached;
  const int64_t end = made.end * p.rows.chunks;
  for (int64_t tile = made.begin * p.rows.chunks; tile < end; tile += 2) {
    const bool single = tile + 1 == end;
    const RowTile tiles[2] = {{tile / p.rows.chunks, tile % p.rows.chunks},
                              {(tile + !single) / p.rows.chunks, (tile + !single) % p.rows.chunks}};
    find_reached(p, tiles, reached);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t pair = 0; pair < p.pairs; ++pair) {
      const Half* const weight = p.weight + pair * p.taps * 2 * kTileNumbers;
      for (int64_t i = 0; i < reached.count; ++i) {
        const auto at = to_size(i);
        const Half* const right = weight + reached.tap[at] * 2 * kTileNumbers;
        _tile_loadd(4, reached.rows[0][at] + pair * reached.step[0][at], kTileStep);
        _tile_loadd(6, right, kTileStep);
        _tile_loadd(7, right + kTileNumbers, kTileStep);
        _tile_loadd(5, reached.rows[1][at] + pair * reached.step[1][at], kTileStep);
        MILLRACE_MULTIPLY_FOUR;
      }
    }
    _tile_stored(0, sums[0], kTileStep);
    _tile_stored(1, sums[1], kTileStep);
    _tile_stored(2, sums[2], kTileStep);
    _tile_stored(3, sums[3], kTileStep);
    for (int side = 0; side < (single ? 1 : 2); ++side) {
      const int64_t sample = tiles[side].chunk * p.rows.height;
      const int64_t rows = p.rows.samples - sample < p.rows.height ? p.rows.samples - sample : p.rows.height;
      float* const to = finish.to + sample * finish.steps.sample + tiles[side].position * finish.steps.position;
      finish_tile(sums[2 * side], rows, finish, finish.bias, to);
      if (finish.second)
        finish_tile(sums[2 * side + 1], rows, finish, finish.bias == nullptr ? nullptr : finish.bias + kTileBlock, to + finish.steps.block);
    }
  }
}

MILLRACE_TILES void sum_tiles(const TileSums& s, Stretch positions, bool adds) {
  // What no block stands behind is summed here and forgotten.
  alignas(64) float nowhere[kTileFloats] = {};
  const int64_t step = s.rows.deep_numbers();
  for (int64_t tap = 0; tap < s.taps; ++tap) {
    const auto place = [&](int left, int right) { return s.to[left][right] == nullptr ? nowhere : s.to[left][right] + tap * kTileFloats; };
    float* const to[4] = {place(0, 0), place(0, 1), place(1, 0), place(1, 1)};
    if (adds) {
      _tile_loadd(0, to[0], kTileStep);
      _tile_loadd(1, to[1], kTileStep);
      _tile_loadd(2, to[2], kTileStep);
      _tile_loadd(3, to[3], kTileStep);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    for (int64_t position = positions.begin; position < positions.end; ++position) {
      const int32_t at = s.reach[position * s.taps + tap];
      if (at < 0) continue;
      for (int64_t deep = 0; deep < step; deep += kTileNumbers) {
        const Half* const left = s.left[0] + at * step + deep;
        const Half* const right = s.right[0] + position * step + deep;
        _tile_loadd(4, left, kTileStep);
        _tile_loadd(6, right, kTileStep);
        _tile_loadd(7, s.right[1] == nullptr ? kNoTile.data() : s.right[1] + position * step + deep, kTileStep);
        _tile_loadd(5, s.left[1] == nullptr ? kNoTile.data() : s.left[1] + at * step + deep, kTileStep);
        MILLRACE_MULTIPLY_FOUR;
      }
    }
    _tile_stored(0, to[0], kTileStep);
    _tile_stored(1, to[1], kTileStep);
    _tile_stored(2, to[2], kTileStep);
    _tile_stored(3, to[3], kTileStep);
  }
}

}  // namespace millrace::cpu
#endif
