// Twenty training steps of a small network against PyTorch's optimizers, in fp64 and fp32: step by step from equal
// weights, and in fp64 also on our own all the way.
#include <gtest/gtest.h>

#include "core/reference/reference_device.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/golden_optimizer.h"
#include "tests/golden/straight_line.h"

namespace millrace {
namespace {

using testing::GoldenFile;
using testing::normwise_difference;
using testing::settings_of;
using testing::StraightLine;

// With `equal_weights` every step starts from PyTorch's weights; the optimizer's slots are always our own.
void expect_agreement(const std::string& file, ElementType type, bool equal_weights, double tolerance) {
  const GoldenFile golden(file);
  const Graph graph(golden.model());
  const auto device = make_reference_device(type);
  const auto steps = static_cast<int64_t>(golden.values("losses").size());
  const auto samples = static_cast<int64_t>(golden.labels_at(0).size());
  ASSERT_EQ(steps, 20);
  StraightLine line(*device, graph, samples);
  const std::vector<int64_t> sample_ids(static_cast<size_t>(samples), 0);
  UpdateArguments update{.optimizer = settings_of(golden), .learning_rate = golden.number("learning_rate", 0)};

  for (int64_t step = 0; step < steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    if (step == 0 || equal_weights)
      for (const std::string& name : line.trained()) line.write(name, golden.values_at(name + ".steps", step));
    const std::vector<int32_t> labels = golden.labels_at(step);
    const MicroBatch batch{.sample_ids = sample_ids, .labels = labels, .error_scale = 1.0 / static_cast<double>(samples)};
    const Score score = line.forward(golden.values_at("inputs", step), batch);
    line.backward(batch);
    update.step = step + 1;
    line.update(update);

    EXPECT_NEAR(score.loss / static_cast<double>(samples), golden.values_at("losses", step)[0], tolerance);
    for (const std::string& name : line.trained())
      EXPECT_LE(normwise_difference(line.read(name), golden.values_at(name + ".steps", step + 1)), tolerance) << name;
  }
}

class GoldenOptimizer : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenOptimizer, AgreesFromEqualWeightsInFp64) { expect_agreement(GetParam(), ElementType::kFloat64, true, 1e-10); }
TEST_P(GoldenOptimizer, AgreesOverTwentyStepsInFp64) { expect_agreement(GetParam(), ElementType::kFloat64, false, 1e-10); }
TEST_P(GoldenOptimizer, AgreesFromEqualWeightsInFp32) { expect_agreement(GetParam(), ElementType::kFloat32, true, 1e-5); }

INSTANTIATE_TEST_SUITE_P(Optimizers, GoldenOptimizer, ::testing::ValuesIn(testing::golden_names("optimizer_")),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace millrace
