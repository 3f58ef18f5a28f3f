// Convolutions of 3x3 kernels by Winograd's F(4x4, 3x3), of our own: for instruction sets that oneDNN has none for. Internal to core/cpu.
//
//   if (Winograd::serves(conv, engine, input, output)) {
//     Winograd forward({.samples = 8, .inputs = 64, .outputs = 128, .height = 16, ...});
//     plan.add(forward.scratch_bytes());
//     forward.change_weight(w);                          // once per update: w lies as [input][tap][output]
//     forward.run({.x = x, .y = y, .bias = b}, scratch);
//
// Error back-propagation is the same with inputs and outputs swapped, the taps in reverse and padding 2 - p. Activations lie in blocks of
// channels, as tensor.h has them. 36 products of blocked matrices (blocked_product.h) take a quarter of the multiplications of the direct
// way; in fp32 the result is off by some 1e-6 of the largest values, measured by the norm (tests/core/cpu/engine_test.cpp). Neither threads
// nor the chunks that the tiles are taken in change the forward bits; those of the gradient follow from the shape alone. The transformed
// weight takes four times the weight's memory and belongs to the object; scratch is the caller's.
#pragma once

#include <cstdint>
#include <optional>

#include "core/cpu/engine.h"
#include "core/cpu/memory.h"
#include "core/documents/model.h"

namespace millrace::cpu {

// Of one pass: what it reads (x) and what it makes (y).
struct WinogradShape {
  int64_t samples = 0;
  int64_t inputs = 0, outputs = 0;  // channels
  int64_t height = 0, width = 0;    // of x
  int64_t out_height = 0, out_width = 0;
  int64_t pad_h = 0, pad_w = 0;
  int64_t lanes = 8;
  int threads = 1;
};

// Whether a convolution of this kind between maps of these shapes can be computed so.
bool winograd_serves(const Engine& engine, const Conv2d& conv, const Shape& input, const Shape& output);
// y of one becomes x of the other.
WinogradShape error_back_of(const WinogradShape& forward);

// Tiles of 4x4 positions of y, through all samples, and how they are taken in chunks.
class WinogradTiles {
 public:
  WinogradTiles(const WinogradShape& shape, int64_t bytes_near, int64_t least, int64_t most);

  int64_t count() const { return rows_ * columns_ * samples_; }
  int64_t chunk() const { return chunk_; }
  struct Place {
    int64_t sample = 0, row = 0, column = 0;  // first position of y
  };
  Place place(int64_t tile) const { return {tile / (rows_ * columns_), tile / columns_ % rows_ * 4, tile % columns_ * 4}; }

 private:
  int64_t samples_, rows_, columns_, chunk_;
};

// Forward and error back.
class Winograd {
 public:
  struct Arguments {
    const float* x = nullptr;
    float* y = nullptr;
    const float* bias = nullptr;      // by channel of y; may be missing
    std::optional<float> slope = {};  // below zero: 0 for ReLU
    bool adds = false;                // to y, before the activation
  };

  // `reversed`: taps as error back-propagation wants them.
  Winograd(const WinogradShape& shape, bool reversed);

  size_t scratch_bytes() const;
  // `weight`: [channel of x][tap][channel of y].
  void change_weight(const float* weight);
  void run(const Arguments& arguments, float* scratch) const;

 private:
  WinogradShape shape_;
  bool reversed_;
  WinogradTiles tiles_;
  Buffer weight_;  // [component][block of y][channel of x][channel in the block]
};

class WinogradGradient {
 public:
  explicit WinogradGradient(const WinogradShape& forward);

  size_t scratch_bytes() const;
  // `gradient`: [channel of x][tap][channel of y], overwritten or added to.
  void run(const float* x, const float* y_error, float* gradient, bool adds, float* scratch) const;
  // Sums of the error over all positions, by channel of y.
  void run_bias(const float* y_error, float* gradient, bool adds) const;

 private:
  WinogradShape shape_;
  WinogradTiles tiles_;
};

}  // namespace millrace::cpu
