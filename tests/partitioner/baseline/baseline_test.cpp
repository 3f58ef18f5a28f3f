#include "partitioner/baseline/baseline.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/base/error.h"
#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "partitioner/baseline/layer_times.h"
#include "tests/partitioner/baseline/hand_made_device.h"

namespace millrace {
namespace {

using testing::HasSubstr;
using testing_support::HandMadeDevice;

// 8 channels of 4 x 4 in, 3x3 to 8 channels, then 16 channels, then 10 classes.
Model small_net() {
  ModelBuilder net("small", {8, 4, 4});
  net.conv("conv1", 8, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 16, {.kernel = 3, .pad = 1});
  net.flatten("flatten");
  net.dense("fc", 10);
  return net.finish();
}

constexpr double kConv1Macs = 8 * 8 * 9 * 16;
constexpr double kConv2Macs = 8 * 16 * 9 * 16;
constexpr double kDenseMacs = 256 * 10;
constexpr double kMacs = kConv1Macs + kConv2Macs + kDenseMacs;
constexpr double kParameters = 8 * 8 * 9 + 8 + 8 * 16 * 9 + 16 + 256 * 10 + 10;
constexpr double kActivations = 8 * 16 + 8 * 16 + 256;  // what the layers with weights read

class Baselines : public testing::Test {
 protected:
  PlanTask task_of(int64_t devices, int64_t mini_batch) const {
    PlanTask task;
    task.graph = &graph_;
    task.cluster = uniform_cluster("hand", devices, {2, 2, 0, 1});  // 2 Gb/s, 1 us
    task.models.assign(static_cast<size_t>(devices), &device_);
    task.options.mini_batch = mini_batch;
    task.options.optimizer.kind = OptimizerKind::kSgd;
    return task;
  }

  const Graph graph_{small_net()};
  const HandMadeDevice device_{1e9, 1e9};
};

TEST_F(Baselines, DataParallelismByHand) {
  const Outcome outcome = plan_data(task_of(4, 10));
  ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
  EXPECT_FALSE(outcome.plan);
  const double compute = 3 * 3 * kMacs / 1e9;               // three samples on the busiest device
  const double link_bits = 2.0 * 3 / 4 * kParameters * 32;  // scatter and gather
  const double exchange = link_bits / 2e9 + 6 * 1e-6;       // six steps of latency
  const PlanSummary& summary = outcome.summary;
  EXPECT_NEAR(summary.images_per_second, 10 / (compute + exchange), 1e-6 * summary.images_per_second);
  EXPECT_DOUBLE_EQ(summary.communication_bits, 4 * link_bits);  // the ring's closing link, too
  EXPECT_DOUBLE_EQ(summary.storage_bits, 32 * (4 * 2 * kParameters + 4 * 3 * kActivations));
  EXPECT_NEAR(summary.links[0].forward_bits_per_image, link_bits / 10, 1e-9);
  EXPECT_EQ(summary.links[0].backward_bits_per_image, 0);
  EXPECT_NEAR(summary.communication_gbps, 1e-9 * 4 * link_bits / (compute + exchange), 1e-9);
  EXPECT_NEAR(summary.flop_utilisation, 3 * kMacs * summary.images_per_second / 4e9, 1e-9);
  EXPECT_NEAR(summary.devices[0].idle_fraction, 1 - compute / (compute + exchange), 1e-9);
  EXPECT_EQ(summary.devices[3].segment.size(), 3u);
}

TEST_F(Baselines, ModelParallelismByHand) {
  const Outcome outcome = plan_model(task_of(3, 10));
  ASSERT_TRUE(outcome.feasible) << outcome.reason.text;
  // conv1's outputs (it reads the 8 channels of the image), conv2's inputs and fc's inputs in thirds: three of eight are the
  // largest part, and 86 of 256.
  const double compute = 10 * 3 * (kConv1Macs * 3 / 8 + kConv2Macs * 3 / 8 + kDenseMacs * 86 / 256) / 1e9;
  const double gather = 2.0 / 3 * 32;  // per element, on each link
  // conv1 gathers its sum (the image needs no error); the others add sums up and gather the errors of their inputs.
  const double link_bits = 10 * gather * (128 + (2 * 256 + 128) + (2 * 10 + 256));
  const double steps = 2 + (4 + 2) + (4 + 2);
  const double exchange = link_bits / 2e9 + steps * 1e-6;
  const PlanSummary& summary = outcome.summary;
  EXPECT_NEAR(summary.images_per_second, 10 / (compute + exchange), 1e-6 * summary.images_per_second);
  EXPECT_NEAR(summary.communication_bits, 3 * link_bits, 1e-6);
  EXPECT_NEAR(summary.storage_bits, 32 * (2 * kParameters + 3 * 10 * kActivations), 1);
  EXPECT_EQ(summary.devices[0].segment[0].split, Split::kOutputChannels);
  EXPECT_EQ(summary.devices[1].segment[1].split, Split::kInputChannels);
  EXPECT_EQ(summary.devices[0].segment[1].begin, 0);
  EXPECT_EQ(summary.devices[2].segment[1].end, 8);
}

TEST_F(Baselines, AloneADeviceExchangesNothing) {
  for (const Outcome& outcome : {plan_data(task_of(1, 10)), plan_model(task_of(1, 10))}) {
    ASSERT_TRUE(outcome.feasible);
    EXPECT_EQ(outcome.summary.communication_bits, 0);
    EXPECT_NEAR(outcome.summary.images_per_second, 1e9 / (3 * kMacs), 1e-6 * outcome.summary.images_per_second);
  }
}

TEST_F(Baselines, TheSlowestDeviceSetsThePace) {
  PlanTask task = task_of(4, 16);
  const HandMadeDevice slow(0.25e9, 1e9);
  task.models[2] = &slow;
  EXPECT_EQ(plan_data(task).summary.bottleneck.index, 2);
  const PlanSummary summary = plan_data(task).summary;
  EXPECT_GT(summary.devices[0].idle_fraction, summary.devices[2].idle_fraction);
  EXPECT_LT(summary.images_per_second, plan_data(task_of(4, 16)).summary.images_per_second);
  EXPECT_LT(plan_model(task).summary.images_per_second, plan_model(task_of(4, 16)).summary.images_per_second);
}

TEST_F(Baselines, TheSlowestLinkSetsTheExchange) {
  PlanTask task = task_of(4, 16);
  task.cluster.links[1].forward_gbps = 0.5;
  PlanTask all_slow = task_of(4, 16);
  for (LinkEntry& link : all_slow.cluster.links) link.forward_gbps = 0.5;
  EXPECT_EQ(plan_data(task).summary.images_per_second, plan_data(all_slow).summary.images_per_second);
  PlanTask shared = task_of(4, 16);
  shared.cluster.links[0].shared_gbps = 0.5;
  EXPECT_EQ(plan_data(shared).summary.images_per_second, plan_data(all_slow).summary.images_per_second);
}

TEST_F(Baselines, AMiniBatchLimitsDataParallelism) {
  EXPECT_TRUE(plan_data(task_of(10, 10)).feasible);
  const Outcome outcome = plan_data(task_of(12, 10));
  EXPECT_FALSE(outcome.feasible);
  EXPECT_EQ(outcome.reason.resource, "samples");
  EXPECT_EQ(outcome.reason.missing, 2);
  EXPECT_THAT(outcome.reason.text, HasSubstr("use 10 devices at most"));
}

TEST_F(Baselines, TheNarrowestLayerLimitsModelParallelism) {
  EXPECT_TRUE(plan_model(task_of(8, 10)).feasible);
  const Outcome outcome = plan_model(task_of(9, 10));
  EXPECT_FALSE(outcome.feasible);
  EXPECT_EQ(outcome.reason.resource, "channels");
  EXPECT_EQ(outcome.reason.missing, 1);
  EXPECT_THAT(outcome.reason.text, HasSubstr("layer \"conv1\" has 8"));
}

TEST_F(Baselines, RecurrentLayersCannotBeShared) {
  const Graph graph(zoo_model("char-rnn"));
  PlanTask task = task_of(2, 10);
  task.graph = &graph;
  const Outcome outcome = plan_model(task);
  EXPECT_FALSE(outcome.feasible);
  EXPECT_THAT(outcome.reason.text, HasSubstr("cannot be divided"));
}

TEST_F(Baselines, SamplesAtOnceAreHalvedUntilTheyFit) {
  const double parameters = 4 * 2 * kParameters;  // bytes
  PlanTask task = task_of(2, 16);
  const HandMadeDevice tight(1e9, parameters + 4 * 2.5 * kActivations);
  task.models = {&device_, &tight};
  const Outcome outcome = plan_data(task);
  ASSERT_TRUE(outcome.feasible);
  EXPECT_EQ(outcome.summary.in_flight_samples, 2);  // of 8, 4, 2
  const HandMadeDevice too_tight(1e9, parameters + 4 * 0.5 * kActivations);
  task.models = {&device_, &too_tight};
  const Outcome infeasible = plan_data(task);
  EXPECT_FALSE(infeasible.feasible);
  EXPECT_EQ(infeasible.reason.device, 1);
  EXPECT_NEAR(infeasible.reason.missing, 4 * 0.5 * kActivations, 1e-6);
  EXPECT_THAT(infeasible.reason.text, HasSubstr("all parameters"));
  // Shared out, the parameters leave room.
  EXPECT_TRUE(plan_model(task).feasible);
}

TEST_F(Baselines, AMicroBatchGivenIsKept) {
  PlanTask task = task_of(2, 16);
  task.options.micro_batch = 3;
  EXPECT_EQ(plan_data(task).summary.in_flight_samples, 3);
  EXPECT_EQ(plan_model(task).summary.in_flight_samples, 3);
  task.options.micro_batch = 100;
  EXPECT_EQ(plan_data(task).summary.in_flight_samples, 8);
}

TEST_F(Baselines, TasksThatMakeNoSenseAreRefused) {
  PlanTask task = task_of(2, 16);
  task.models.pop_back();
  EXPECT_THROW(plan_data(task), Error);
  EXPECT_THROW(plan_model(task), Error);
  task = task_of(2, 0);
  EXPECT_THROW(plan_data(task), Error);
}

TEST(LayerTimesTest, TheSharedEngineFillsItsTilesInPart) {
  const Graph vgg(zoo_model("vgg16"));
  const Chain chain(vgg);
  const LayerTimes times(chain);
  EXPECT_EQ(times.tile_waste(0), 1);                   // 3x3 as all convolutions
  EXPECT_EQ(times.tile_waste(chain.groups() - 1), 9);  // a fully connected layer uses one multiplier of nine
  const Graph alexnet(zoo_model("alexnet"));
  const Chain other(alexnet);
  const LayerTimes mixed(other);
  EXPECT_DOUBLE_EQ(mixed.tile_waste(0), 144.0 / 121);  // 11x11 on sixteen tiles of 3x3
  EXPECT_DOUBLE_EQ(mixed.tile_waste(1), 36.0 / 25);
  EXPECT_EQ(mixed.tile_waste(2), 1);
}

}  // namespace
}  // namespace millrace
