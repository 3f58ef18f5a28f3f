#include "fpga/conv_ce/arithmetic/fixed_dropout.h"

#include <cmath>

#include "core/base/check.h"
#include "core/base/random.h"

namespace millrace {

std::vector<uint64_t> DropoutDraws::words() const {
  std::vector<uint64_t> words = {seed, stream,
                                 uint64_t{threshold} | uint64_t{static_cast<uint16_t>(scale)} << 32 | static_cast<uint64_t>(shift) << 48};
  words.insert(words.end(), first_blocks.begin(), first_blocks.end());
  return words;
}

DropoutDraws dropout_draws(const Dropout& dropout, uint64_t seed, std::string_view layer, int64_t epoch,
                           std::span<const int64_t> sample_ids, int64_t elements, bool training) {
  DropoutDraws draws;
  draws.first_blocks.resize(sample_ids.size());
  if (!training) return draws;
  // As core/device/dropout_mask.h has them; a test compares the masks.
  draws.seed = seed;
  draws.stream = stream_id("dropout", layer) + static_cast<uint64_t>(epoch);
  draws.threshold = static_cast<uint32_t>(dropout.probability * 0x1p32);
  const double scale = 1.0 / (1.0 - dropout.probability);
  draws.shift = 15;
  while (draws.shift > 0 && std::nearbyint(std::ldexp(scale, draws.shift)) > 32767) --draws.shift;
  draws.scale = static_cast<int16_t>(saturated(std::llrint(std::ldexp(scale, draws.shift))));
  const uint64_t blocks = (static_cast<uint64_t>(elements) + 3) / 4;
  for (size_t i = 0; i < sample_ids.size(); ++i) draws.first_blocks[i] = static_cast<uint64_t>(sample_ids[i]) * blocks;
  return draws;
}

std::vector<int16_t> dropped_out(std::span<const int16_t> elements, const DropoutDraws& draws, size_t sample,
                                 ArithmeticCounters& counters) {
  MILLRACE_CHECK(sample < draws.first_blocks.size(), "sample {} of {}", sample, draws.first_blocks.size());
  const Philox draw(draws.seed, draws.stream);
  std::vector<int16_t> kept(elements.size());
  for (size_t first = 0; first < elements.size(); first += 4) {
    const auto words = draw.block(draws.first_blocks[sample] + first / 4);
    for (size_t i = first; i < elements.size() && i < first + 4; ++i)
      if (words[i - first] >= draws.threshold) kept[i] = rounded_to_element(int64_t{elements[i]} * draws.scale, draws.shift, counters);
  }
  return kept;
}

}  // namespace millrace
