// The resource model of the generated engines against Yosys: DSP slices and block RAM of small sizes, for two families of parts.
// tests/benchmarks/engine_synthesis does the same for seven sizes of each engine.
#include <gtest/gtest.h>

#include "tests/fpga/conv_ce/synthesis/engine_synthesis.h"

namespace millrace {
namespace {

struct Part {
  EngineCase engine;
  std::string family;
};

class Synthesis : public testing::TestWithParam<Part> {};

TEST_P(Synthesis, TakesTheSlicesAndBlocksThatAreModelled) {
  if (!yosys_is_here()) GTEST_SKIP() << "yosys is not installed";
  const Part& part = GetParam();
  const SynthesisResult found =
      synthesized(part.engine, part.family,
                  testing::TempDir() + "synthesis_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  ASSERT_TRUE(found.log.empty()) << found.log;
  EXPECT_EQ(found.use.dsp, part.engine.modelled.dsp);
  EXPECT_EQ(found.use.bram18, part.engine.modelled.bram18);
}

INSTANTIATE_TEST_SUITE_P(Small, Synthesis,
                         testing::Values(Part{engine_case("forward_engine", {3, 1, 1, 2, 1}, 10), "xc7"},
                                         Part{engine_case("error_back_engine", {3, 1, 2, 1, 2}, 10), "xc7"},
                                         Part{engine_case("gradient_engine", {3, 1, 1, 1, 1}, 10), "xc7"},
                                         Part{engine_case("forward_engine", {1, 1, 2, 2, 2}, 9), "xcup"},
                                         Part{engine_case("gradient_engine", {1, 1, 1, 2, 1}, 9), "xcup"}));

}  // namespace
}  // namespace millrace
