// One segment on the reference device in fp64: sums over micro-batches, clipping, memory to the byte, evaluation.
#include "core/train/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/random.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/reference/reference_device.h"
#include "core/train/evaluate.h"
#include "core/train/segment_state.h"
#include "core/train/weights_digest.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/train/tiny_runs.h"

namespace millrace {
namespace {

using testing_support::tiny_model;
using testing_support::values_of;

constexpr uint64_t kSeed = 5;

// A segment that holds a whole network, with what it borrows.
struct Alone {
  Alone(const Model& model, int64_t mini_batch, int64_t micro_batch, OptimizerSettings optimizer = {.kind = OptimizerKind::kSgd},
        Alignment alignment = Alignment::kOneForwardOneBackward, ElementType type = ElementType::kFloat64)
      : graph(model), device(make_reference_device(type)) {
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 1);
    request.mini_batch = mini_batch;
    request.micro_batch = micro_batch;
    request.optimizer = optimizer;
    request.alignment = alignment;
    plan = single_device_plan(graph, request);
    segment = std::make_unique<SegmentExecutor>(plan, graph, 0, *device);
    segment->initialize(kSeed);
  }

  // Micro-batch s of samples that depend on their number alone: images and labels of s * micro_batch, ...
  void forward_and_back(int64_t s, Score* score = nullptr) {
    const int64_t elements = graph.model().input.elements();
    std::vector<int64_t> ids;
    std::vector<int32_t> labels;
    std::vector<float> pixels;
    for (int64_t id = s * plan.micro_batch; id < (s + 1) * plan.micro_batch; ++id) {
      ids.push_back(id);
      labels.push_back(static_cast<int32_t>(id % 3));
      for (int64_t e = 0; e < elements; ++e) pixels.push_back(Philox(17, 1).uniform(static_cast<uint64_t>(id * elements + e)) - 0.4F);
    }
    const MicroBatch batch{
        .index = s, .seed = kSeed, .sample_ids = ids, .labels = labels, .error_scale = 1.0 / static_cast<double>(plan.mini_batch)};
    segment->forward(batch, pixels, nullptr, score);
    segment->error_back(batch);
    segment->parameter_gradient(batch);
  }
  void mini_batch(int64_t index) {
    for (int64_t s = 0; s < plan.micro_batches(); ++s) forward_and_back(index * plan.micro_batches() + s);
  }

  TensorMap weights() { return read_weights(*segment, graph, ElementType::kFloat64); }
  TensorMap gradients() {
    TensorMap tensors;
    for (const Node& node : graph.nodes())
      for (const ParameterSpec& parameter : node.parameters) {
        std::vector<double> values(static_cast<size_t>(parameter.elements()));
        if (parameter.trained && segment->read_gradient(node.layer.name, parameter.tensor, values))
          tensors[node.layer.name + "." + parameter.tensor] = host_tensor(parameter.dimensions, values);
      }
    return tensors;
  }

  Graph graph;
  Plan plan;
  std::unique_ptr<Device> device;
  std::unique_ptr<SegmentExecutor> segment;
};

double normwise(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(Executor, GradientsOfMicroBatchesAddUpToThoseOfTheMiniBatch) {
  const Model model = tiny_model(/*normalised=*/false);  // batch norm's statistics are the micro-batch's, by design
  Alone whole(model, 12, 12);
  whole.mini_batch(0);
  const TensorMap expected = whole.gradients();
  ASSERT_EQ(expected.size(), 6u);
  for (const int64_t micro_batch : {1, 2, 4, 6}) {
    Alone divided(model, 12, micro_batch);
    divided.mini_batch(0);
    const TensorMap gradients = divided.gradients();
    for (const auto& [name, tensor] : expected)
      EXPECT_LT(normwise(values_of(gradients, name), values_of(expected, name)), 1e-12) << name << " in micro-batches of " << micro_batch;
  }
}

TEST(Executor, AnUpdateBeginsANewSum) {
  Alone alone(tiny_model(/*normalised=*/false), 4, 2);
  alone.mini_batch(0);
  const TensorMap once = alone.gradients();
  alone.segment->update({.optimizer = alone.plan.optimizer, .learning_rate = 0});
  alone.mini_batch(0);
  EXPECT_EQ(first_difference(alone.gradients(), once), "");
}

TEST(Executor, GradientsAreTheSlopesOfTheLoss) {
  const auto loss_at = [](const std::string& layer, const std::string& tensor, size_t element, double step) {
    Alone alone(tiny_model(/*normalised=*/false), 6, 3);
    std::vector<double> values = values_of(alone.weights(), layer + "." + tensor);
    values[element] += step;
    alone.segment->write_parameter(layer, tensor, values);
    Score score;
    for (int64_t s = 0; s < 2; ++s) alone.forward_and_back(s, &score);
    return score.loss / 6;
  };
  Alone alone(tiny_model(/*normalised=*/false), 6, 3);
  alone.mini_batch(0);
  const TensorMap gradients = alone.gradients();
  constexpr double kStep = 1e-6;
  for (const char* layer : {"conv1", "conv2", "fc"})
    for (const char* tensor : {"weight", "bias"})
      for (const size_t element : {size_t{0}, size_t{2}}) {
        const double slope = (loss_at(layer, tensor, element, kStep) - loss_at(layer, tensor, element, -kStep)) / (2 * kStep);
        EXPECT_NEAR(values_of(gradients, std::string(layer) + "." + tensor)[element], slope, 1e-7) << layer << "." << tensor << element;
      }
}

TEST(Executor, SgdMovesByRateTimesPreparedGradient) {
  const auto moved = [](const UpdateArguments& arguments) {
    Alone alone(tiny_model(/*normalised=*/false), 4, 2);
    const TensorMap before = alone.weights();
    alone.mini_batch(0);
    const TensorMap gradients = alone.gradients();
    const double norm = alone.segment->squared_gradient_norm();
    double expected_norm = 0;
    alone.segment->update(arguments);
    const TensorMap after = alone.weights();
    for (const auto& [name, tensor] : gradients) {
      const std::vector<double> g = values_of(gradients, name), from = values_of(before, name), to = values_of(after, name);
      for (size_t i = 0; i < g.size(); ++i) {
        const double clipped = arguments.value_limit ? std::clamp(g[i], -*arguments.value_limit, *arguments.value_limit) : g[i];
        EXPECT_NEAR(to[i], from[i] - arguments.learning_rate * arguments.gradient_scale * clipped, 1e-15) << name;
        expected_norm += g[i] * g[i];
      }
    }
    EXPECT_NEAR(norm, expected_norm, 1e-12 * expected_norm);
  };
  const OptimizerSettings sgd{.kind = OptimizerKind::kSgd};
  moved({.optimizer = sgd, .learning_rate = 0.3});
  moved({.optimizer = sgd, .learning_rate = 0.3, .gradient_scale = 0.25});
  moved({.optimizer = sgd, .learning_rate = 0.3, .value_limit = 0.01});
}

TEST(Executor, FrozenLayersPassErrorsOnAndKeepTheirWeights) {
  Model model = tiny_model(/*normalised=*/false);
  Alone free(model, 4, 2);
  for (Layer& layer : model.layers) layer.frozen = layer.name == "conv2";
  Alone frozen(model, 4, 2);
  const TensorMap before = frozen.weights();
  for (Alone* alone : {&free, &frozen}) alone->mini_batch(0);
  EXPECT_EQ(values_of(frozen.gradients(), "conv1.weight"), values_of(free.gradients(), "conv1.weight"));
  EXPECT_FALSE(frozen.gradients().contains("conv2.weight"));
  frozen.segment->update({.optimizer = frozen.plan.optimizer, .learning_rate = 0.5});
  const TensorMap after = frozen.weights();
  EXPECT_EQ(after.at("conv2.weight"), before.at("conv2.weight"));
  EXPECT_EQ(after.at("conv2.bias"), before.at("conv2.bias"));
  EXPECT_FALSE(after.at("conv1.weight") == before.at("conv1.weight"));
}

TEST(Executor, SaysWhichParametersLiveElsewhere) {
  const Graph graph(tiny_model());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 2);
  request.mini_batch = 8;
  request.micro_batch = 2;
  const std::vector<Shard> shards = shards_from_cuts(graph, std::vector<Cut>{{1, 0, 0}}, {});
  const auto device = make_reference_device(ElementType::kFloat32);
  request.remote_homes = {{"conv2", "bias", 0, 3, 0, 1}};
  const Plan balanced = assemble_plan(graph, request, shards);
  SegmentExecutor segment(balanced, graph, 1, *device);
  std::vector<std::string> remote;
  for (const RemoteParameter& parameter : segment.remote_parameters())
    remote.push_back(fmt::format("{}.{} from {}, {} elements", parameter.layer, parameter.tensor, parameter.offset, parameter.elements));
  EXPECT_THAT(remote, testing::ElementsAre("conv2.weight from 0, 108 elements", "conv2.bias from 0, 3 elements"));
  std::vector<double> full(3);
  EXPECT_FALSE(segment.read_parameter("conv2", "bias", full)) << "kept where it lives";
  EXPECT_TRUE(segment.read_parameter("fc", "bias", full));
}

TEST(Executor, HoldsAsManyWeightVersionsAsTheScheduleUses) {
  const Graph graph(tiny_model(/*normalised=*/false));
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 2);
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.alignment = Alignment::kStash;
  const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, std::vector<Cut>{{1, 0, 0}}, {}));
  const auto device = make_reference_device(ElementType::kFloat32);
  SegmentExecutor segment(plan, graph, 0, *device);
  segment.initialize(1);
  std::vector<double> before(4), after(4);
  ASSERT_TRUE(segment.read_parameter("conv1", "bias", before));
  std::vector<float> ones(static_cast<size_t>(segment.gradient_elements()), 1.0f);
  segment.write_gradients(std::span<const float>(ones));
  segment.update({.optimizer = {.kind = OptimizerKind::kSgd}, .learning_rate = 0.5}, /*version=*/0);
  segment.read_parameter("conv1", "bias", after);
  EXPECT_EQ(after[0], before[0] - 0.5);
  segment.set_newest_version(0);
  segment.read_parameter("conv1", "bias", after);
  EXPECT_EQ(after, before) << "version 0 is still there";
}

TEST(Executor, NamesTheFirstLayerThatIsNotFinite) {
  Alone alone(tiny_model(/*normalised=*/false), 2, 2, {}, Alignment::kOneForwardOneBackward, ElementType::kFloat32);
  alone.forward_and_back(0);
  EXPECT_EQ(alone.segment->first_non_finite(0), "");
  std::vector<double> weights(12 * 3, 3e38);
  alone.segment->write_parameter("fc", "weight", weights);
  alone.forward_and_back(1);
  EXPECT_EQ(alone.segment->first_non_finite(1), "fc");
}

TEST(Executor, HandsOutScoresAndOutputs) {
  Alone alone(tiny_model(/*normalised=*/false), 2, 2);
  alone.forward_and_back(0);
  std::vector<double> scores(6), hidden(2 * 4 * 16);
  EXPECT_TRUE(alone.segment->read_output(0, "fc", scores));
  std::vector<float> read(6);
  alone.segment->read_scores(/*training=*/true, read);
  EXPECT_THAT(read, testing::Pointwise(testing::FloatNear(1e-6F), scores));
  EXPECT_FALSE(alone.segment->read_output(0, "conv1", hidden));  // fused away
  EXPECT_TRUE(alone.segment->read_output(0, "relu1", hidden));
  for (const double value : hidden) EXPECT_GE(value, 0);
}

// ---- memory --------------------------------------------------------------------------------------------------------

// Adds up the bytes of every tensor made through a device and its kernels.
struct Made {
  int64_t bytes = 0;
  std::unique_ptr<Tensor> operator()(std::unique_ptr<Tensor> tensor) {
    if (tensor) bytes += tensor->bytes();
    return tensor;
  }
  std::vector<std::unique_ptr<Tensor>> operator()(std::vector<std::unique_ptr<Tensor>> tensors) {
    for (const auto& tensor : tensors) bytes += tensor->bytes();
    return tensors;
  }
};

class CountedKernel : public Kernel {
 public:
  CountedKernel(std::unique_ptr<Kernel> kernel, Made& made) : kernel_(std::move(kernel)), made_(made) {}
  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return made_(kernel_->make_parameters()); }
  std::vector<std::unique_ptr<Tensor>> make_gradients() override { return made_(kernel_->make_gradients()); }
  std::vector<std::unique_ptr<Tensor>> make_state() override { return made_(kernel_->make_state()); }
  std::unique_ptr<Tensor> make_keep() override { return made_(kernel_->make_keep()); }
  void parameters_changed(std::span<const Tensor* const> parameters) override { kernel_->parameters_changed(parameters); }
  void forward(const ForwardArguments& arguments) override { kernel_->forward(arguments); }
  void error_back(const ErrorBackArguments& arguments) override { kernel_->error_back(arguments); }
  void parameter_gradient(const GradientArguments& arguments) override { kernel_->parameter_gradient(arguments); }
  std::string implementation() const override { return kernel_->implementation(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  Made& made_;
};

class CountedDevice : public Device {
 public:
  std::string description() const override { return device_->description(); }
  ElementType compute_type() const override { return device_->compute_type(); }
  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return std::make_unique<CountedKernel>(device_->make_kernel(spec), made);
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return made(device_->make_tensor(spec)); }
  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override { device_->write(tensor, channels, host); }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override { device_->read(tensor, channels, host); }
  void zero(Tensor& tensor) override { device_->zero(tensor); }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    device_->copy_channels(from, channels, to, to_begin, add);
  }
  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    device_->update(arguments, parameter, gradient, slots);
  }
  double squared_norm(const Tensor& tensor) override { return device_->squared_norm(tensor); }
  bool all_finite(const Tensor& tensor) override { return device_->all_finite(tensor); }

  Made made;

 private:
  std::unique_ptr<Device> device_ = make_reference_device(ElementType::kFloat32);
};

TEST(ExecutorMemory, IsWhatTheTensorsTake) {
  for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble})
    for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam}) {
      SCOPED_TRACE(name_of(alignment));
      Alone alone(tiny_model(), 8, 2, {.kind = kind}, alignment);
      CountedDevice device;
      SegmentExecutor segment(alone.plan, alone.graph, 0, device);
      const SegmentMemory before = [&] {
        const int64_t made = device.made.bytes;  // memory() may make a slot to measure it
        const SegmentMemory memory = segment.memory();
        device.made.bytes = made;
        return memory;
      }();
      std::vector<int64_t> ids{0, 1};
      std::vector<int32_t> labels{0, 1};
      const std::vector<float> pixels(32, 0.5F);
      segment.initialize(kSeed);
      // Every slot is used once its window has gone by.
      for (int64_t s = 0; s < 8; ++s) {
        const MicroBatch batch{.index = s, .sample_ids = ids, .labels = labels, .error_scale = 0.125};
        segment.forward(batch, pixels);
        segment.error_back(batch);
        segment.parameter_gradient(batch);
      }
      EXPECT_EQ(segment.memory().total(), device.made.bytes);
      EXPECT_EQ(before.total(), device.made.bytes);
      const int64_t trained = 4 * alone.graph.parameter_count();
      EXPECT_EQ(before.gradient_bytes, trained);
      EXPECT_EQ(before.optimizer_bytes, trained * alone.plan.optimizer.slots());
      EXPECT_EQ(before.parameter_bytes, trained + 4 * 2 * 4);  // and the running statistics of four channels
    }
}

// ---- evaluation ----------------------------------------------------------------------------------------------------

class Evaluating : public testing::Test {
 protected:
  // 8 test samples, after some training so that running statistics are not their start.
  std::unique_ptr<Alone> trained(int64_t micro_batch) {
    auto alone = std::make_unique<Alone>(tiny_model(), 12, 4);
    for (int64_t m = 0; m < 3; ++m) {
      alone->mini_batch(m);
      alone->segment->update({.optimizer = alone->plan.optimizer, .learning_rate = 0.05, .step = m + 1});
    }
    auto same = std::make_unique<Alone>(tiny_model(), micro_batch, micro_batch);
    write_weights(*same->segment, same->graph, alone->weights());
    return same;
  }

  DataSplit data_ = load_data("synthetic:1x4x4:3:40:7");
  DataTransform transform_ = adapt(tiny_model(), data_.test.shape, 3).transform;
};

TEST_F(Evaluating, ShortTailsCountEachSampleOnce) {
  const auto one_by_one = trained(1);
  const Evaluation expected = evaluate(*one_by_one->segment, one_by_one->graph, one_by_one->plan, data_.test, transform_);
  EXPECT_EQ(expected.samples, 8);
  EXPECT_GT(expected.loss, 0);
  for (const int64_t micro_batch : {2, 3, 5, 8, 11}) {
    SCOPED_TRACE(micro_batch);
    const auto alone = trained(micro_batch);
    std::vector<int64_t> seen;
    int64_t right = 0;
    const Evaluation found = evaluate(*alone->segment, alone->graph, alone->plan, data_.test, transform_,
                                      [&](int64_t sample, int32_t label, std::span<const float> scores) {
                                        seen.push_back(sample);
                                        EXPECT_EQ(label, data_.test.labels[static_cast<size_t>(sample)]);
                                        ASSERT_EQ(scores.size(), 3u);
                                        right += std::max_element(scores.begin(), scores.end()) - scores.begin() == label ? 1 : 0;
                                      });
    EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(found.samples, 8);
    EXPECT_NEAR(found.loss, expected.loss, 1e-12);
    EXPECT_EQ(found.accuracy, expected.accuracy);
    EXPECT_EQ(static_cast<double>(right) / 8, expected.accuracy);
  }
}

TEST_F(Evaluating, TouchesNeitherWeightsNorStatisticsNorWhatIsUnderWay) {
  Alone quiet(tiny_model(), 4, 2), disturbed(tiny_model(), 4, 2);
  quiet.mini_batch(0);
  disturbed.forward_and_back(0);
  const TensorMap before = disturbed.weights();
  evaluate(*disturbed.segment, disturbed.graph, disturbed.plan, data_.test, transform_);
  EXPECT_EQ(first_difference(disturbed.weights(), before), "");
  disturbed.forward_and_back(1);
  EXPECT_EQ(first_difference(disturbed.gradients(), quiet.gradients()), "");
  EXPECT_EQ(first_difference(disturbed.weights(), quiet.weights()), "");
}

}  // namespace
}  // namespace millrace
