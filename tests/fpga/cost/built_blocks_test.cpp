// A board's memories over two kinds of blocks: where the generator finds their blocks, and where sums at rates of exchange say it.
#include "fpga/cost/built_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "fpga/common/cost/shared_out.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/engine_sizing.h"

namespace millrace {
namespace {

constexpr BlockInventory kBoard{.bram36 = 200, .urams = 90};

// As the generator shares them out (shared_out_test.cpp tries every way).
bool can_be_shared_out(int64_t bram18, const std::vector<MemoryShape>& memories) {
  PackedBlocks taken{.bram36 = static_cast<double>(bram18) / 2};
  const std::vector<int64_t> bits = ultra_bits(memories, kBoard, taken.bram36);
  for (size_t m = 0; m < memories.size(); ++m) {
    const PackedBlocks own = blocks_of(memories[m], bits[m]);
    taken.bram36 += own.bram36;
    taken.urams += own.urams;
  }
  return taken.bram36 <= kBoard.bram36 && taken.urams <= kBoard.urams;
}

// What fits never counts too much, and what counts little enough fits, but for a few whose last column would have to lie in both kinds.
TEST(BuiltBlocks, SumsSayWhetherMemoriesCanBeSharedOut) {
  std::mt19937_64 random(3);
  const auto below = [&random](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
  int fitting = 0, said_to_fit = 0, not_fitting = 0, too_much = 0;
  for (int draw = 0; draw < 6000; ++draw) {
    BlocksAfterSum after{.before = {}, .bram18 = below(500), .large = {}};
    std::vector<MemoryShape> all;
    for (int64_t m = 0; m < 11; ++m) {
      all.push_back({16 + 8 * below(60), 100 + below(200) * below(60), 1, below(4) == 0});
      (m < 3 ? after.before : after.large).emplace_back(all.back());
    }
    const BuiltBlocks built =
        built_blocks({.parameters = {}, .gradients = {}}, &after, true, act_ram_blocks({.parameters = {}, .gradients = {}}, {}, 0), kBoard);
    const BuiltBlocks alone = built_blocks({.parameters = {}, .gradients = {}}, nullptr, true,
                                           act_ram_blocks({.parameters = {}, .gradients = {}}, {}, 0), kBoard);
    bool says = true;
    for (size_t rate = 0; rate < kExchangeRates.size(); ++rate)  // without the Act-RAM, which has a few blocks always
      says = says && built.exchanged[rate] - alone.exchanged[rate] <= kBoard.bram36 + kExchangeRates[rate] * kBoard.urams + 1e-9;
    const bool fits = can_be_shared_out(after.bram18, all);
    if (fits) ++fitting;
    if (fits && !says) ++too_much;
    if (!fits) ++not_fitting;
    if (!fits && says) ++said_to_fit;
  }
  EXPECT_GT(fitting, 500);
  EXPECT_GT(not_fitting, 500);
  EXPECT_EQ(too_much, 0);
  EXPECT_LT(said_to_fit, not_fitting / 200);
}

TEST(BuiltBlocks, CountOneKindWhereABoardHasNoOther) {
  BlocksAfterSum after{.before = {}, .bram18 = 10, .large = {MemoryBlocks(MemoryShape{72, 4096})}};
  const BuiltBlocks built = built_blocks({.parameters = {}, .gradients = {}}, &after, true,
                                         act_ram_blocks({.parameters = {}, .gradients = {}}, {}, 0), {.bram36 = 100});
  for (const double amount : built.exchanged) EXPECT_EQ(amount, 0);
  EXPECT_EQ(built.fixed.urams, 0);
  EXPECT_GE(built.fixed.bram36, 5 + 8);
}

// A search leaves engines out by what their memories take at least, so that none is ever more than what they take; and of deep ones it says
// most of it.
TEST(BuiltBlocks, AreNoFewerThanWhatIsSaidToBeTheLeast) {
  std::mt19937_64 random(5);
  const auto up_to = [&random](int64_t most) { return static_cast<int64_t>(1 + random() % static_cast<uint64_t>(most)); };
  int64_t all = 0, at_least = 0, of_luts = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    ConvolutionShape shape{.inputs = up_to(600), .outputs = up_to(600), .height = 4 + up_to(30), .width = 4 + up_to(30)};
    shape.kernel_h = shape.kernel_w = up_to(3);
    const EngineParallelism engine = engine_of(shape, std::min(shape.inputs, up_to(64)), std::min(shape.outputs, up_to(64)));
    const bool error_back = draw % 2 == 0;
    for (const MemoryShape& memory : {parameter_memory(engine, shape, error_back), gradient_memory(engine, shape)}) {
      const int64_t least = least_bram18_of(memory), taken = bram18_of(memory);
      ASSERT_LE(least, taken) << memory.width << " x " << memory.depth;
      if (taken == 0) ++of_luts;
      EXPECT_EQ(least, taken == 0 ? 0 : least_bram18_of_bits(memory.bits()));
      all += taken;
      at_least += least;
    }
    const EngineSurroundings around{.error_back = error_back, .gradient_samples = up_to(8)};
    ASSERT_LE(least_stream_blocks(around, 512), stream_blocks(engine, shape, around, 512));
  }
  EXPECT_GT(at_least, all * 3 / 4);
  EXPECT_GT(of_luts, 20);
}

}  // namespace
}  // namespace millrace
