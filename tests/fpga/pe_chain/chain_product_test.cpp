// A product on chained elements: the closed form against every element walked, and the worked examples of FARNN's section 5.1.3.
#include "fpga/pe_chain/chain_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace millrace {

TEST(ChainProduct, WorkedExamples) {
  EXPECT_EQ(feed_cycles({.inputs = 1024, .outputs = 1024, .elements = 768}), 1536);
  EXPECT_EQ(feed_cycles({.inputs = 1024, .outputs = 1024, .elements = 768, .most_parts = 1}), 2048);
  EXPECT_EQ(slice_feeds({.inputs = 1024, .outputs = 1024, .elements = 256}), (std::vector<int64_t>{1024, 1024, 1024, 1024}));
  // RNN-T's layer with its projection: FP 8,832 words, EB 8,928 on 192 elements a unit; 6,400 either way on 256.
  const auto words = [](int64_t inputs, int64_t outputs, int64_t elements) {
    return feed_cycles({.inputs = inputs, .outputs = outputs, .elements = elements});
  };
  EXPECT_EQ(words(640, 2048, 192) + words(512, 640, 192), 8832);
  EXPECT_EQ(words(2048, 640, 192) + words(160, 2048, 192), 8928);
  EXPECT_EQ(words(640, 2048, 256) + words(512, 640, 256), 6400);
  EXPECT_EQ(words(2048, 640, 256) + words(160, 2048, 256), 6400);
}

TEST(ChainProduct, FeedingIsTheFullestElementsWeights) {
  std::mt19937 draw(11);
  for (int trial = 0; trial < 2000; ++trial) {
    const ChainProduct product{.inputs = 1 + static_cast<int64_t>(draw() % 60),
                               .outputs = 1 + static_cast<int64_t>(draw() % 90),
                               .elements = 4 * (1 + static_cast<int64_t>(draw() % 12)),
                               .most_parts = 1 + static_cast<int64_t>(draw() % 3)};
    // Weights handed out one by one: output o of slice o / P; parts of an output on elements r apart.
    std::vector<int64_t> held(static_cast<size_t>(product.elements), 0);
    const LastSlice last = last_slice_of(product);
    const int64_t part = (product.inputs + last.parts - 1) / last.parts;
    for (int64_t output = 0; output < product.outputs; ++output)
      for (int64_t input = 0; input < product.inputs; ++input) {
        const bool full = output / product.elements < last.full_slices;
        const int64_t element = output % product.elements + (full ? 0 : (input / part) * last.outputs);
        ASSERT_LT(element, product.elements);
        ++held[static_cast<size_t>(element)];
      }
    EXPECT_EQ(feed_cycles(product), *std::max_element(held.begin(), held.end()));
  }
}

TEST(ChainProduct, ExposedCyclesAreThoseOfTheWalk) {
  std::mt19937 draw(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int64_t cells = 20 + static_cast<int64_t>(draw() % 380), latencies[] = {30, 100, 222, 400};
    const ChainProduct product{.inputs = cells,
                               .outputs = cells,
                               .elements = 16 * (1 + static_cast<int64_t>(draw() % 40)),
                               .most_parts = 1 + static_cast<int64_t>(draw() % 3)};
    const StepWait wait{.latency = latencies[draw() % 4]};
    ASSERT_EQ(feed_cycles(product) + exposed_cycles(product, wait), simulated_step_cycles(product, wait, 4))
        << cells << " cells, " << product.elements << " elements, latency " << wait.latency << ", parts " << product.most_parts;
  }
}

TEST(ChainProduct, CyclesNeverFallWithCells) {
  for (const int64_t elements : {64, 192, 256, 432})
    for (const int64_t samples : {1, 2, 4}) {
      int64_t before = 0;
      for (int64_t units = 1; units <= 1100; ++units) {
        const ChainProduct product{.inputs = 1024, .outputs = units, .elements = elements};
        const int64_t cycles = feed_cycles(product) + exposed_cycles(product, {.latency = 222, .samples = samples});
        ASSERT_GE(cycles, before) << units << " units on " << elements;
        before = cycles;
      }
    }
}

}  // namespace millrace
