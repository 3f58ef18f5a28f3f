// Dropout in fixed point drops what the shared mask drops, and scales what it keeps.
#include "fpga/conv_ce/arithmetic/fixed_dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/device/dropout_mask.h"

namespace millrace {
namespace {

constexpr int64_t kElements = 1003;
constexpr uint64_t kSeed = 42;
constexpr int64_t kEpoch = 7;

TEST(FixedDropout, DropsWhatTheSharedMaskDrops) {
  const std::vector<int64_t> ids = {5, 0, (int64_t{1} << 40) + 3};
  for (const double probability : {0.0, 0.2, 0.5, 0.9}) {
    const Dropout dropout{.probability = probability};
    const DropoutDraws draws = dropout_draws(dropout, kSeed, "drop6", kEpoch, ids, kElements, /*training=*/true);
    const DropoutMask<double> mask(dropout, kSeed, "drop6", kElements);
    ArithmeticCounters counters;
    for (size_t sample = 0; sample < ids.size(); ++sample) {
      const std::vector<int16_t> kept = dropped_out(std::vector<int16_t>(kElements, 1000), draws, sample, counters);
      for (int64_t element = 0; element < kElements; ++element) {
        const double factor = mask.factor(kEpoch, ids[sample], element);
        ASSERT_NEAR(kept[static_cast<size_t>(element)], 1000 * factor, factor == 0 ? 0 : 0.5 + 1000 * std::ldexp(0.5, -draws.shift))
            << probability << " at " << element << " of sample " << sample;
      }
    }
  }
}

TEST(FixedDropout, AHalfAndAFifthAreExact) {
  for (const auto& [probability, scale] : {std::pair(0.5, 2.0), std::pair(0.2, 1.25)}) {
    const DropoutDraws draws = dropout_draws({.probability = probability}, 1, "d", 0, std::vector<int64_t>{0}, 4, /*training=*/true);
    EXPECT_EQ(std::ldexp(draws.scale, -draws.shift), scale);
  }
}

TEST(FixedDropout, EvaluationChangesNothing) {
  const DropoutDraws draws = dropout_draws({.probability = 0.5}, 1, "d", 0, std::vector<int64_t>{9}, 4, /*training=*/false);
  ArithmeticCounters counters;
  const std::vector<int16_t> elements = {-32768, -1, 5, 32767};
  EXPECT_EQ(dropped_out(elements, draws, 0, counters), elements);
}

TEST(FixedDropout, SaturatesAndCounts) {
  const DropoutDraws draws = dropout_draws({.probability = 0.5}, 1, "d", 0, std::vector<int64_t>{0}, 400, /*training=*/true);
  ArithmeticCounters counters;
  for (const int16_t element : dropped_out(std::vector<int16_t>(400, 30000), draws, 0, counters))
    EXPECT_TRUE(element == 0 || element == 32767);
  EXPECT_GT(counters.saturated, 100);
}

}  // namespace
}  // namespace millrace
