#include "partitioner/profile/measure.h"

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/reference/reference_device.h"
#include "partitioner/profile/stage_partition.h"
#include "tests/partitioner/profile/profile_helpers.h"

namespace millrace {
namespace {

// A shortcut over two groups, one back to the input, and a batch norm that keeps what it needs backward.
Model branching_model() {
  ModelBuilder net("branching", {2, 6, 6});
  net.conv("conv1", 2, {.kernel = 3, .pad = 1});
  net.layer("norm", BatchNorm{});
  net.relu("relu1");
  net.conv("conv2", 2, {.kernel = 3, .pad = 1});
  net.layer("add_input", Add{}, {"conv2", "input"});
  net.conv("conv3", 2, {.kernel = 3, .pad = 1});
  net.layer("add", Add{}, {"conv3", "relu1"});
  net.flatten("flat");
  net.dense("fc", 3);
  return net.finish();
}

TEST(MeasureProfile, TimesEveryGroupAndCountsWhatAPlanWouldMove) {
  const Graph graph(branching_model());
  const auto device = make_reference_device(ElementType::kFloat32);
  constexpr int64_t kMicroBatch = 3;
  int64_t heard = 0;
  const Profile profile = measure_profile(graph, *device, {.micro_batch = kMicroBatch, .repeats = 4}, [&](int64_t done, int64_t total) {
    EXPECT_EQ(done, ++heard);
    EXPECT_EQ(total, 6);
  });
  EXPECT_EQ(heard, 6);
  ASSERT_EQ(profile.size(), 4);
  EXPECT_NO_THROW(validate(profile));
  EXPECT_TRUE(profile.is_chain());
  double parameters = 0;
  for (size_t group = 0; group < 4; ++group) {
    const ProfileNode& node = profile.nodes[group];
    EXPECT_EQ(node.name, (std::vector<std::string>{"conv1", "conv2", "conv3", "fc"})[group]);
    EXPECT_GT(node.forward_seconds, 0);
    EXPECT_GT(node.backward_seconds, 0);
    parameters += node.parameter_bytes;
    if (group == 3) continue;
    // The same cut in a plan for two devices.
    const std::vector<Cut> cuts{{static_cast<int64_t>(group) + 1, 0, 0}};
    const Plan plan = assemble_plan(graph, {.cluster = uniform_cluster("cpu", 2), .mini_batch = kMicroBatch, .micro_batch = kMicroBatch},
                                    shards_from_cuts(graph, cuts, std::vector<Split>(4, Split::kInputChannels)));
    int64_t elements = 0;
    for (const Flow& flow : plan.flows)
      if (flow.direction == Direction::kForward) elements += flow.elements_per_sample;
    EXPECT_EQ(node.out_bytes, static_cast<double>(4 * kMicroBatch * elements)) << node.name;
  }
  EXPECT_EQ(profile.nodes[3].out_bytes, 0);
  EXPECT_EQ(parameters, 4.0 * static_cast<double>(graph.parameter_count()));
  // The input, conv1 before its norm, and the normalised activation behind it; then what the norm keeps.
  EXPECT_GE(profile.nodes[0].activation_bytes, 4 * kMicroBatch * 3 * 72);
  EXPECT_LT(profile.nodes[1].activation_bytes, profile.nodes[0].activation_bytes);
  EXPECT_EQ(parse_profile_csv(csv_of(profile), "again").size(), 4);
  EXPECT_TRUE(partition_stages(profile, {.devices = 3, .objective = StageObjective::kMax}).feasible);
}

TEST(MeasureProfile, FindsTheSlowLayer) {
  ModelBuilder net("uneven", {4, 12, 12});
  net.conv("small", 1, {.kernel = 1});
  net.conv("large", 24, {.kernel = 5, .pad = 2});
  net.flatten("flat");
  net.dense("fc", 2);
  const Graph graph(net.finish());
  const auto device = make_reference_device(ElementType::kFloat32);
  const Profile profile = measure_profile(graph, *device, {.micro_batch = 4, .repeats = 3});
  EXPECT_GT(profile.nodes[1].seconds(), 3 * profile.nodes[0].seconds());
}

TEST(MeasureProfile, RefusesWhatMakesNoSense) {
  const auto device = make_reference_device(ElementType::kFloat32);
  const Graph graph(branching_model());
  expect_error(ErrorCode::kUsage, {"micro-batch of 0"}, [&] { measure_profile(graph, *device, {.micro_batch = 0}); });
  expect_error(ErrorCode::kUsage, {"0 repeats"}, [&] { measure_profile(graph, *device, {.repeats = 0}); });
  Model headless = branching_model();
  headless.layers.pop_back();
  const Graph without_loss(headless);
  expect_error(ErrorCode::kUsage, {"branching has no loss"}, [&] { measure_profile(without_loss, *device, {}); });
}

}  // namespace
}  // namespace millrace
