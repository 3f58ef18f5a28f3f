// PyTorch's networks and optimizers once more, the way they are trained: compiled into a segment, fused, run by the
// executor. On the reference device in fp64 to the last digits, on the CPU device in fp32 from equal weights.
#include <gtest/gtest.h>

#include <functional>

#include "core/cpu/cpu_device.h"
#include "core/plan/assemble.h"
#include "core/reference/reference_device.h"
#include "core/train/executor.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/golden_optimizer.h"
#include "tests/golden/straight_line.h"

namespace millrace {
namespace {

using testing::GoldenFile;
using testing::normwise_difference;

struct DeviceKind {
  const char* name;
  std::function<std::unique_ptr<Device>()> make;
  double forward_tolerance;
  double gradient_tolerance;
};
const DeviceKind kReference{"Fp64", [] { return make_reference_device(ElementType::kFloat64); }, 1e-10, 1e-10};
const DeviceKind kCpu{"Cpu", [] { return make_cpu_device(); }, 1e-5, 1e-4};

// A network on one device, one micro-batch a mini-batch; tensors by the names of the golden files.
class Network {
 public:
  Network(const GoldenFile& golden, int64_t batch, Device& device, const OptimizerSettings& optimizer = {}) : graph_(golden.model()) {
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 1);
    request.mini_batch = request.micro_batch = batch;
    request.optimizer = optimizer;
    plan_ = single_device_plan(graph_, request);
    segment_ = std::make_unique<SegmentExecutor>(plan_, graph_, 0, device);
    segment_->initialize(1);
    sample_ids_.resize(static_cast<size_t>(batch));
  }

  // "conv1.weight", "norm.running_mean": every parameter and statistic.
  std::vector<std::string> parameters(bool trained_only) const {
    std::vector<std::string> names;
    for (const Node& node : graph_.nodes())
      for (const ParameterSpec& parameter : node.parameters)
        if (parameter.trained || !trained_only) names.push_back(node.layer.name + "." + parameter.tensor);
    return names;
  }
  void write(const std::string& name, std::span<const double> values) {
    const auto [layer, tensor] = split(name);
    ASSERT_TRUE(segment_->write_parameter(layer, tensor, values)) << name;
  }
  std::vector<double> read(const std::string& name, size_t elements) {
    const auto [layer, tensor] = split(name);
    std::vector<double> values(elements);
    EXPECT_TRUE(segment_->read_parameter(layer, tensor, values)) << name;
    return values;
  }
  std::vector<double> gradient(const std::string& name, size_t elements) {
    const auto [layer, tensor] = split(name);
    std::vector<double> values(elements);
    EXPECT_TRUE(segment_->read_gradient(layer, tensor, values)) << name;
    return values;
  }
  // Empty when the output is fused away.
  std::vector<double> output(const std::string& layer, size_t elements) {
    std::vector<double> values(elements);
    return segment_->read_output(0, layer, values) ? values : std::vector<double>{};
  }

  // The mean loss.
  double step(std::span<const double> input, std::span<const int32_t> labels, std::span<const int32_t> lengths = {}) {
    const std::vector<float> pixels(input.begin(), input.end());
    const MicroBatch batch{
        .sample_ids = sample_ids_, .labels = labels, .error_scale = 1.0 / static_cast<double>(plan_.mini_batch), .lengths = lengths};
    Score score;
    segment_->forward(batch, pixels, nullptr, &score);
    segment_->error_back(batch);
    segment_->parameter_gradient(batch);
    return score.loss * batch.error_scale;
  }
  void update(const UpdateArguments& arguments) { segment_->update(arguments); }
  bool has_layer(const std::string& name) const { return graph_.find(name) >= 0; }

 private:
  static std::pair<std::string, std::string> split(const std::string& name) {
    const size_t dot = name.rfind('.');
    return {name.substr(0, dot), name.substr(dot + 1)};
  }

  Graph graph_;
  Plan plan_;
  std::unique_ptr<SegmentExecutor> segment_;
  std::vector<int64_t> sample_ids_;
};

std::string without_suffix(const std::string& name, std::string_view suffix) { return name.substr(0, name.size() - suffix.size()); }

void expect_network_agreement(const std::string& file, const DeviceKind& kind) {
  const GoldenFile golden(file);
  const auto device = kind.make();
  Network network(golden, golden.batch(), *device);
  for (const std::string& name : network.parameters(/*trained_only=*/false)) network.write(name, golden.values(name));
  const double loss = network.step(golden.values("input"), golden.labels(), golden.lengths());
  EXPECT_NEAR(loss, golden.values("loss").front(), kind.forward_tolerance * std::max(1.0, golden.values("loss").front()));

  int outputs = 0, gradients = 0, fused = 0;
  for (const auto& [name, stored] : golden.tensors()) {
    if (name == "labels" || name == "lengths") continue;
    SCOPED_TRACE(name);
    const std::vector<double> expected = golden.values(name);
    if (name.ends_with(".gradient")) {
      EXPECT_LE(normwise_difference(network.gradient(without_suffix(name, ".gradient"), expected.size()), expected),
                kind.gradient_tolerance);
      ++gradients;
    } else if (name.ends_with(".after")) {
      EXPECT_LE(normwise_difference(network.read(without_suffix(name, ".after"), expected.size()), expected), kind.forward_tolerance);
    } else if (network.has_layer(name) && name != "loss") {
      const std::vector<double> mine = network.output(name, expected.size());
      fused += mine.empty() ? 1 : 0;
      outputs += mine.empty() ? 0 : 1;
      if (!mine.empty()) {
        EXPECT_LE(normwise_difference(mine, expected), kind.forward_tolerance);
      }
    }
  }
  EXPECT_GE(outputs, 4);
  EXPECT_GE(gradients, static_cast<int>(network.parameters(/*trained_only=*/true).size()));
  EXPECT_GE(fused, 1);  // otherwise this is the straight line again
}

class GoldenNetwork : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenNetwork, AgreesInFp64) { expect_network_agreement(GetParam(), kReference); }
TEST_P(GoldenNetwork, AgreesOnTheCpu) { expect_network_agreement(GetParam(), kCpu); }

INSTANTIATE_TEST_SUITE_P(Executor, GoldenNetwork, ::testing::ValuesIn(testing::golden_names("network_")),
                         [](const auto& instance) { return instance.param; });

// With `equal_weights` every step starts from PyTorch's weights; the optimizer's slots are always our own.
void expect_optimizer_agreement(const std::string& file, const DeviceKind& kind, bool equal_weights) {
  const GoldenFile golden(file);
  const auto device = kind.make();
  const auto steps = static_cast<int64_t>(golden.values("losses").size());
  const OptimizerSettings settings = testing::settings_of(golden);
  Network network(golden, static_cast<int64_t>(golden.labels_at(0).size()), *device, settings);
  UpdateArguments update{.optimizer = settings, .learning_rate = golden.number("learning_rate", 0)};
  for (int64_t step = 0; step < steps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    if (step == 0 || equal_weights)
      for (const std::string& name : network.parameters(true)) network.write(name, golden.values_at(name + ".steps", step));
    EXPECT_NEAR(network.step(golden.values_at("inputs", step), golden.labels_at(step)), golden.values_at("losses", step)[0],
                kind.forward_tolerance);
    update.step = step + 1;
    network.update(update);
    for (const std::string& name : network.parameters(true)) {
      const std::vector<double> expected = golden.values_at(name + ".steps", step + 1);
      EXPECT_LE(normwise_difference(network.read(name, expected.size()), expected), kind.forward_tolerance) << name;
    }
  }
}

class GoldenTraining : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenTraining, AgreesOverTwentyStepsInFp64) { expect_optimizer_agreement(GetParam(), kReference, false); }
TEST_P(GoldenTraining, AgreesFromEqualWeightsOnTheCpu) { expect_optimizer_agreement(GetParam(), kCpu, true); }

INSTANTIATE_TEST_SUITE_P(Executor, GoldenTraining, ::testing::ValuesIn(testing::golden_names("optimizer_")),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace millrace
