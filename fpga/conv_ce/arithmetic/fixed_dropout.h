// Dropout in fixed point, forward and back: which elements stay is core/device/dropout_mask.h's mask, draw by draw.
//
//   const DropoutDraws draws = dropout_draws(dropout, seed, "drop6", epoch, sample_ids, /*elements=*/4096, /*training=*/true);
//   const std::vector<int16_t> y = dropped_out(x, draws, /*sample=*/0, counters);
//   const std::vector<uint64_t> words = draws.words();            // as dropout_unit.sv is given them
//
// Kept elements become round(x * scale * 2^-shift), saturated, with scale * 2^-shift as near to 1 / (1 - probability) as sixteen bits
// hold: exact for a probability of a half or a fifth. Errors go back through the same function.
// Evaluation drops nothing, and its scale is one. `element` is the place in the sample's whole map.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/operation/dropout.h"
#include "fpga/common/arithmetic/fixed_point.h"

namespace millrace {

struct DropoutDraws {
  uint64_t seed = 0;
  uint64_t stream = 0;
  uint32_t threshold = 0;  // of 2^32: draws below it are dropped
  int16_t scale = 1;
  int shift = 0;
  std::vector<uint64_t> first_blocks;  // per sample: the counter of its first four draws

  std::vector<uint64_t> words() const;
};

DropoutDraws dropout_draws(const Dropout& dropout, uint64_t seed, std::string_view layer, int64_t epoch,
                           std::span<const int64_t> sample_ids, int64_t elements, bool training);

std::vector<int16_t> dropped_out(std::span<const int16_t> elements, const DropoutDraws& draws, size_t sample, ArithmeticCounters& counters);

}  // namespace millrace
