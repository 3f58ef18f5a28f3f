// Products of bf16 in the tiles of AMX, for convolutions: a tile has 16 rows of 64 bytes. Internal to core/cpu.
//
//   const TileRows rows(/*samples=*/32);                                  // how samples fill tiles
//   pack_rows(rows, map, x, 0, positions, packed);                        // fp32 maps into rows of bf16, samples innermost
//   multiply_tiles({.rows = rows, .from = packed, ...}, first, end, {.to = y, ...});
//
// Samples are the rows of a product: a tap of the kernel then reads whole tiles wherever it lies, strides and dilations cost nothing, and
// what would be multiplied with padding is left out. Sums are fp32, each in one order: blocks of channels, then taps. Denormal numbers
// count as zero, as AMX has it. Everything runs on the calling thread and allocates nothing; a TileScope must be alive around products.
//
// Limits: x86-64, has_tiles() (instruction_set.h) and kMostTaps taps; channels in whole blocks of sixteen.
#pragma once

#include <cstdint>

namespace millrace::cpu {

inline constexpr int64_t kTileBlock = 16;     // channels
inline constexpr int64_t kTileNumbers = 512;  // of bf16: a tile
inline constexpr int64_t kMostTaps = 128;

using Half = uint16_t;  // bf16

// Floats from one sample, block of sixteen channels or position to the next.
struct MapSteps {
  int64_t sample = 0, block = 0, position = 0;
};

// Samples as rows: `chunks` tiles of `height` rows hold them, the last with rows of zeros at its end. As the depth of a product they stand
// in tiles of up to 32, `deep` of them, pairs of samples together.
struct TileRows {
  explicit TileRows(int64_t count)
      : samples(count),
        chunks((samples + 15) / 16),
        height((samples + chunks - 1) / chunks),
        deep((samples + 31) / 32),
        depth(((samples + deep - 1) / deep + 1) / 2 * 2) {}

  int64_t padded() const { return chunks * height; }
  // Of one position and a pair of blocks, and of one position and one block as the depth.
  int64_t row_numbers() const { return padded() * 2 * kTileBlock; }
  int64_t deep_numbers() const { return deep * kTileNumbers; }

  int64_t samples, chunks, height, deep, depth;
};

// Of one thread, from here to its end: tiles of these heights, or of these depths.
class TileScope {
 public:
  enum class Use { kRows, kDepth };
  TileScope(const TileRows& rows, Use use);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

struct Stretch {
  int64_t begin = 0, end = 0;
};

// Two blocks of a map, or one where `second` is null, as [position][sample][32 channels]; for these positions.
void pack_rows(const TileRows& rows, const MapSteps& steps, const float* first, const float* second, Stretch positions, Half* to);
// One block as [position][tile of depth][channel][sample] (left factors) or [..][pair of samples][channel][2] (right ones).
void pack_depth(const TileRows& rows, const MapSteps& steps, const float* block, bool left, Stretch positions, Half* to);

// A weight lies as [made block][read block][tap][read channel][made channel]. Right factors of one tap for two blocks of read channels and
// one of made ones; null blocks are zeros.
void pack_weight(const float* first, const float* second, Half* to);
// The same with made channels as what is read.
void pack_weight_back(const float* first, const float* second, Half* to);

// What is done with sums before they are stored.
struct TileFinish {
  float* to = nullptr;  // two blocks of channels
  MapSteps steps;
  const float* bias = nullptr;  // of these channels, or null
  bool second = true;           // whether there is a second block
  bool adds = false, activates = false;
  float slope = 0;  // below zero
};

// Sums over taps and channels: to[position][sample] (+)= from[reach[position][tap]][sample] * weight[tap].
struct TileProduct {
  TileRows rows;
  const Half* from = nullptr;  // by pack_rows, [pair of blocks][position]
  int64_t positions = 0;       // of its map
  int64_t pairs = 0;
  const Half* weight = nullptr;  // [pair of blocks][tap][2 made blocks], tiles of pack_weight
  int64_t taps = 0;
  const int32_t* reach = nullptr;  // [position made][tap]: the position read, or -1
};
void multiply_tiles(const TileProduct& product, Stretch made, const TileFinish& finish);

// Sums over positions and samples, of two blocks each: to[tap] (+)= left[reach[position][tap]]' * right[position].
struct TileSums {
  TileRows rows;
  const Half* left[2] = {};  // by pack_depth, a block each; the second may be null
  const Half* right[2] = {};
  int64_t taps = 0;
  const int32_t* reach = nullptr;  // [position of right][tap]
  float* to[2][2] = {};            // by left and right block: [tap][16][16]
};
void sum_tiles(const TileSums& sums, Stretch positions, bool adds);

}  // namespace millrace::cpu
