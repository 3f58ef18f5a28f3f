// The reference device against PyTorch: single operations and whole networks, tensor by tensor.
#include <gtest/gtest.h>

#include "core/reference/reference_device.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/straight_line.h"

namespace millrace {
namespace {

using testing::GoldenFile;
using testing::normwise_difference;
using testing::StraightLine;

bool given(const Graph& graph, const std::string& name) {
  if (name == "input" || name == "labels" || name == "lengths" || name == "output_error") return true;
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters)
      if (name == node.layer.name + "." + parameter.tensor) return true;
  return false;
}

// Runs a file's step and compares every tensor it holds.
void expect_agreement(const std::string& file, ElementType type, double tolerance) {
  const GoldenFile golden(file);
  const Graph graph(golden.model());
  const auto device = make_reference_device(type);
  StraightLine line(*device, graph, golden.batch());
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      const std::string name = node.layer.name + "." + parameter.tensor;
      line.write(name, golden.values(name));
    }

  const std::vector<int32_t> labels = golden.has("labels") ? golden.labels() : std::vector<int32_t>{};
  const std::vector<double> output_error = golden.has("output_error") ? golden.values("output_error") : std::vector<double>{};
  const std::vector<int64_t> sample_ids(static_cast<size_t>(golden.batch()), 0);
  const std::vector<int32_t> lengths = golden.lengths();
  const MicroBatch batch{.training = golden.training(),
                         .sample_ids = sample_ids,
                         .labels = labels,
                         .error_scale = 1.0 / static_cast<double>(golden.batch()),
                         .lengths = lengths};
  const Score score = line.forward(golden.values("input"), batch);
  line.backward(batch, output_error);

  int compared = 0;
  for (const auto& [name, stored] : golden.tensors()) {
    if (given(graph, name)) continue;
    SCOPED_TRACE(name);
    const std::vector<double> mine = name == "loss" ? std::vector<double>{score.loss * batch.error_scale} : line.read(name);
    EXPECT_LE(normwise_difference(mine, golden.values(name)), tolerance);
    ++compared;
  }
  EXPECT_GE(compared, 2) << "the file holds nothing to compare";
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, AgreesInFp64) { expect_agreement(GetParam(), ElementType::kFloat64, 1e-10); }
TEST_P(Golden, AgreesInFp32) { expect_agreement(GetParam(), ElementType::kFloat32, 1e-5); }

INSTANTIATE_TEST_SUITE_P(Operations, Golden, ::testing::ValuesIn(testing::golden_names("op_")),
                         [](const auto& instance) { return instance.param; });
INSTANTIATE_TEST_SUITE_P(Networks, Golden, ::testing::ValuesIn(testing::golden_names("network_")),
                         [](const auto& instance) { return instance.param; });

TEST(GoldenFiles, AreAllThere) {
  EXPECT_EQ(testing::golden_names("op_").size(), 56u);
  EXPECT_EQ(testing::golden_names("network_").size(), 6u);
  EXPECT_EQ(testing::golden_names("optimizer_").size(), 7u);
}

}  // namespace
}  // namespace millrace
