// The resource model of the generated engines against Yosys: DSP slices and block RAM of small sizes, for two families of parts.
// tests/benchmarks/engine_synthesis does the same for seven sizes of each engine.
#include <gtest/gtest.h>

#include "fpga/conv_ce/rtl/weight_streams.h"
#include "tests/fpga/conv_ce/synthesis/engine_synthesis.h"

namespace millrace {
namespace {

struct Part {
  EngineCase engine;
  std::string family;
  std::string name = {};  // of a memory's words, or of what is neither engine nor memory
};
// What the test is called.
void PrintTo(const Part& part, std::ostream* out) {
  const EngineParallelism& engine = part.engine.engine;
  if (part.engine.address_bits == 0) {  // a memory
    *out << fmt::format("{}_{}_{}", part.engine.top, part.name, part.family);
    return;
  }
  *out << fmt::format("{}_k{}s{}_{}x{}_{}_a{}_{}", part.engine.top, engine.kernel, engine.stride, engine.input_lanes, engine.output_lanes,
                      engine.kernels_per_word, part.engine.address_bits, part.family);
}

class Synthesis : public testing::TestWithParam<Part> {
 protected:
  void takes_what_is_modelled();
};
class SynthesisLong : public Synthesis {};  // half a minute and more each, and what another case covers in part

TEST_P(Synthesis, TakesTheSlicesAndBlocksThatAreModelled) { takes_what_is_modelled(); }
TEST_P(SynthesisLong, TakesTheSlicesAndBlocksThatAreModelled) { takes_what_is_modelled(); }

void Synthesis::takes_what_is_modelled() {
  if (!yosys_is_here()) GTEST_SKIP() << "yosys is not installed";
  const Part& part = GetParam();
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  const SynthesisResult found =
      synthesized(part.engine, part.family, fmt::format("{}synthesis_{}_{}", testing::TempDir(), test.test_suite_name(), test.name()),
                  SynthesisEnd::kBlocks);
  ASSERT_TRUE(found.log.empty()) << found.log;
  EXPECT_EQ(found.use.dsp, part.engine.modelled.dsp);
  EXPECT_EQ(found.use.bram18, part.engine.modelled.bram18);
}

INSTANTIATE_TEST_SUITE_P(ThreeByThree, SynthesisLong,
                         testing::Values(Part{engine_case("forward_engine", {3, 1, 1, 2, 1}, 10), "xc7"},
                                         Part{engine_case("error_back_engine", {3, 1, 2, 1, 2}, 10), "xc7"},
                                         Part{engine_case("gradient_engine", {3, 1, 1, 1, 1}, 10), "xc7"}));
INSTANTIATE_TEST_SUITE_P(Small, Synthesis, testing::Values(Part{engine_case("forward_engine", {1, 1, 2, 2, 2}, 9), "xcup"}));
INSTANTIATE_TEST_SUITE_P(Small, SynthesisLong, testing::Values(Part{engine_case("gradient_engine", {1, 1, 1, 2, 1}, 9), "xcup"}));

// What follows a sum: maxima and averages forward and back, small and large memories.
INSTANTIATE_TEST_SUITE_P(AfterSum, Synthesis,
                         testing::Values(Part{pooling_case("unpooling_unit", {2, 2, 2, 2, 1}, 9, false), "xc7"},
                                         Part{sorter_case(2, {.row_banks = 2, .address = 3}), "xc7"}));

INSTANTIATE_TEST_SUITE_P(AfterSum, SynthesisLong,
                         testing::Values(Part{pooling_case("pooling_unit", {3, 2, 2, 2, 1}, 9, true), "xc7"},
                                         Part{pooling_case("pooling_unit", {2, 2, 2, 2, 1}, 9, false), "xc7"},
                                         Part{sorter_case(4, {.row_banks = 2, .address = 7}), "xc7"},
                                         Part{pooling_case("unpooling_unit", {3, 2, 1, 1, 1}, 9, true), "xc7"},
                                         Part{pooling_case("unpooling_unit", {30, 30, 2, 2, 1}, 7, true), "xc7"},
                                         Part{pooling_case("pooling_unit", {17, 17, 2, 2, 1}, 7, false), "xc7"},
                                         Part{pooling_case("pooling_unit", {30, 30, 2, 2, 1}, 7, true), "xc7"}));

// Large windows that overlap.
INSTANTIATE_TEST_SUITE_P(Overlapping, SynthesisLong,
                         testing::Values(Part{pooling_case("pooling_unit", {9, 2, 2, 2, 1}, 8, false), "xc7"},
                                         Part{pooling_case("pooling_unit", {9, 4, 1, 1, 1}, 8, true), "xc7"},
                                         Part{pooling_case("unpooling_unit", {9, 2, 2, 2, 1}, 8, false), "xc7"},
                                         Part{pooling_case("unpooling_unit", {9, 4, 1, 1, 1}, 8, true), "xc7"}));

// Kernels that FP and EB read at once are there once; depths are no powers of two.
constexpr MemoryShape kKernels{.width = 18 * 16, .depth = 1100, .two_ports = true};
constexpr MemoryShape kWaiting{.width = 144, .depth = 2600};
const std::string kOfKernels = "-set ELEMENTS 18 -set ADDRESS_BITS 11 -set WORDS 1100", kOfWaiting = "-set WIDTH 144 -set DEPTH 2600";
INSTANTIATE_TEST_SUITE_P(Memories, Synthesis,
                         testing::Values(Part{memory_case("parameter_memory", kKernels, kOfKernels), "xc7", "288x1100"}));

// Words that no one shape of a block fills: columns of two shapes and of three, alone and in the modules that have such memories.
Part columns_case(const std::string& family, int64_t width, int64_t depth) {
  return {memory_case("column_memory", {.width = width, .depth = depth}, fmt::format("-set WIDTH {} -set DEPTH {}", width, depth)), family,
          fmt::format("{}x{}", width, depth)};
}
Part gradients_case(int64_t elements, int64_t depth) {
  const MemoryShape memory{.width = elements * 32, .depth = depth};
  return {memory_case("gradient_memory", memory, fmt::format("-set ELEMENTS {} -set ADDRESS_BITS 13 -set WORDS {}", elements, depth)),
          "xc7", fmt::format("{}x{}", memory.width, depth)};
}
INSTANTIATE_TEST_SUITE_P(Columns, Synthesis,
                         testing::Values(Part{memory_case("deep_fifo", {.width = 112, .depth = 4500}, "-set WIDTH 112 -set DEPTH 4500"),
                                              "xc7", "112x4500"}));
INSTANTIATE_TEST_SUITE_P(Columns, SynthesisLong,
                         testing::Values(columns_case("xc7", 39, 5000), gradients_case(8, 4500), columns_case("xc7", 16, 9000),
                                         columns_case("xc7", 31, 17000), columns_case("xc7", 39, 2100), columns_case("xc7", 48, 1030),
                                         columns_case("xcup", 80, 1100), columns_case("xcup", 31, 17000), gradients_case(18, 1100),
                                         gradients_case(25, 2600)));

// What a memory outside leaves on the chip: the beats that a reader has room for.
Part outside_case(const std::string& family, int64_t width, int64_t beat_bits) {
  return {memory_case("outside_fifo", {.width = beat_bits, .depth = kStreamedBeats},
                      fmt::format("-set WIDTH {} -set BEAT_BITS {} -set SAMPLES 9 -set PLACE_BYTES 4014080", width, beat_bits)),
          family, fmt::format("{}_in_{}", width, beat_bits)};
}
INSTANTIATE_TEST_SUITE_P(Outside, Synthesis, testing::Values(outside_case("xc7", 3, 64)));
INSTANTIATE_TEST_SUITE_P(Outside, SynthesisLong, testing::Values(outside_case("xcup", 80, 64), outside_case("xc7", 256, 512)));

// A region's place in the table is a sum, and takes no slice.
const std::string kRegions = "-set REGIONS 3 -set TABLE 168'h00110000220033000400005500660007000088";
INSTANTIATE_TEST_SUITE_P(Regions, Synthesis, testing::Values(Part{memory_case("region_walker", {}, kRegions), "xc7", "3_regions"}));

// Between maps there are neither slices nor blocks, but LUTs: here of the last of a sum of four maps.
TEST(Synthesis, MapAddersTakeTheLutsThatAreModelled) {
  if (!yosys_is_here()) GTEST_SKIP() << "yosys is not installed";
  const SynthesisResult found = synthesized(adder_case(4, 2, true), "xc7", testing::TempDir() + "synthesis_adder");
  ASSERT_TRUE(found.log.empty()) << found.log;
  EXPECT_NEAR(static_cast<double>(found.luts), map_adder_luts(4, 2), 0.05 * static_cast<double>(found.luts));
  EXPECT_EQ(static_cast<double>(found.flip_flops), kAdderFlipFlops);
  EXPECT_EQ(found.use, EngineResources{});
}

// All of a memory, or the columns of a word that are to be: the others are of block RAM, and no more of UltraRAM.
TEST(Synthesis, BitsThatAreToBeOfUltraRamAre) {
  if (!yosys_is_here()) GTEST_SKIP() << "yosys is not installed";
  const auto takes = [](const std::string& top, const MemoryShape& memory, const std::string& parameters, int64_t ultra_bits) {
    const EngineCase one = memory_case(top, memory, parameters, ultra_bits);
    const SynthesisResult found =
        synthesized(one, "xcup", fmt::format("{}synthesis_ultra_{}_{}", testing::TempDir(), top, ultra_bits), SynthesisEnd::kBlocks);
    EXPECT_TRUE(found.log.empty()) << found.log;
    EXPECT_EQ(found.use.bram18, one.modelled.bram18) << top << " " << ultra_bits;
    EXPECT_EQ(static_cast<double>(found.uram), blocks_of(memory, ultra_bits).urams) << top << " " << ultra_bits;
  };
  takes("parameter_memory", kKernels, kOfKernels, 144);
  takes("deep_fifo", kWaiting, kOfWaiting, kWaiting.width);
  takes("gradient_memory", {.width = 160, .depth = 1100}, "-set ELEMENTS 5 -set ADDRESS_BITS 11 -set WORDS 1100", 72);
}

}  // namespace
}  // namespace millrace
