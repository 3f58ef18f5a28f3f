// Plans of small networks: what they promise beside what is built, and beside long runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/documents/model.h"
#include "core/graph/zoo.h"
#include "fpga/conv_ce/generator/ring_engines.h"
#include "node/simulate/simulate.h"
#include "tests/deploy/session/built_plans.h"

namespace millrace {
namespace {

using testing_support::checks_of;
using testing_support::outcome_of;

Graph small_net(const std::string& input, const std::string& layers) {
  const std::string end = "layers{name:\"loss\" softmax_cross_entropy{}}";
  return Graph(parse_model("name:\"small\" " + input + layers + end, "small"));
}

Graph depthwise_net() {
  return small_net("input{channels:3 height:16 width:16}",
                   R"(layers{name:"c0" conv2d{out_channels:16 kernel:3 pad:1}} layers{name:"r0" relu{}}
                      layers{name:"d1" conv2d{out_channels:16 kernel:3 pad:1 groups:16}} layers{name:"r1" relu{}}
                      layers{name:"p1" conv2d{out_channels:32 kernel:1}} layers{name:"r2" relu{}}
                      layers{name:"d2" conv2d{out_channels:32 kernel:3 pad:1 stride:2 groups:8}} layers{name:"r3" relu{}}
                      layers{name:"flat" flatten{}} layers{name:"fc" dense{out_features:10}})");
}

// Few channels mix there, and the engine goes through the groups one after the other.
TEST(SmallRings, ConvolutionsOfManyGroupsCountAsTheyAreBuilt) {
  const Graph graph = depthwise_net();
  for (const char* cluster : {"vc709", "zc706x2", "u280x3"}) {
    const Outcome outcome = outcome_of(graph, cluster, Accounting::kFull);
    ASSERT_TRUE(outcome.plan) << cluster << ": " << outcome.reason.text;
    for (const DeviceCheck& check : checks_of(*outcome.plan, graph)) {
      EXPECT_TRUE(check.fits()) << cluster << " " << check.index << check.lacks;
      EXPECT_LE(check.built_seconds, outcome.summary.seconds_per_image * 1.001) << cluster << " " << check.index << " " << check.slowest;
    }
    for (const char* layer : {"d1", "d2"})
      EXPECT_EQ(std::ranges::count(outcome.plan->shards, layer, &Shard::layer), 1) << cluster << " divides " << layer;
  }
}

// Also where the search would gain nothing by it.
TEST(SmallRings, BoardsDivideNoConvolutionsOfManyGroups) {
  const Graph graph = depthwise_net();
  const Cluster cluster = cluster_from("vc709x2", shipped_catalogue());
  for (const bool full : {true, false}) {
    const CostModels models = models_for(cluster, shipped_catalogue(), {ElementType::kFixed16, ElementType::kFixed16},
                                         full ? Accounting::kFull : Accounting::kFpdeep, graph);
    const auto divides = [&](const char* layer) { return models.of_devices.front()->divides(graph.node(graph.index_of(layer))); };
    EXPECT_TRUE(divides("c0") && divides("p1"));
    EXPECT_EQ(divides("d1"), !full);
    EXPECT_EQ(divides("d2"), !full);
  }
}

// The paper counts any number of tiles, and divides them.
TEST(SmallRings, ConvolutionsOfManyGroupsAreDividedAsFpdeepCounts) {
  const Graph graph = small_net("input{channels:3 height:16 width:16}",
                                R"(layers{name:"c0" conv2d{out_channels:64 kernel:1}}
                                   layers{name:"d1" conv2d{out_channels:64 kernel:5 pad:2 groups:32}} layers{name:"flat" flatten{}}
                                   layers{name:"fc" dense{out_features:2}})");
  const Outcome outcome = outcome_of(graph, "vc709x4", Accounting::kFpdeep);
  ASSERT_TRUE(outcome.plan);
  EXPECT_GT(std::ranges::count(outcome.plan->shards, "d1", &Shard::layer), 1);
}

// As large as its map with the zeros between its taps, and not taken flat for that.
TEST(SmallRings, DilatedKernelsOverTheWholeMapCountAsTheyAreBuilt) {
  const Graph graph = small_net("input{channels:5 height:9 width:9}",
                                R"(layers{name:"c" conv2d{out_channels:16 kernel:5 dilation:2}} layers{name:"flat" flatten{}}
                                   layers{name:"fc" dense{out_features:3}})");
  for (const char* cluster : {"zc706", "u280"}) {
    const Outcome outcome = outcome_of(graph, cluster, Accounting::kFull);
    ASSERT_TRUE(outcome.plan) << cluster;
    for (const DeviceCheck& check : checks_of(*outcome.plan, graph)) {
      EXPECT_EQ(check.planned, check.built) << cluster;
      EXPECT_LE(check.built_seconds, outcome.summary.seconds_per_image * 1.001) << cluster;
    }
  }
}

// With streams as wide as the ring's: of wider ones lanes beyond the last channel are drawn for, too.
TEST(SmallRings, DropoutTakesAsLongAsItIsBuilt) {
  const Graph graph = small_net("input{channels:5 height:4 width:12}",
                                R"(layers{name:"c" conv2d{out_channels:4 kernel:3 pad:1}} layers{name:"drop" dropout{probability:0.5}}
                                   layers{name:"flat" flatten{}} layers{name:"fc" dense{out_features:10}})");
  for (const char* cluster : {"zc706", "vc709x2"}) {
    const Outcome outcome = outcome_of(graph, cluster, Accounting::kFull);
    ASSERT_TRUE(outcome.plan) << cluster;
    const std::vector<DeviceCheck> checks = checks_of(*outcome.plan, graph);
    const double built = std::ranges::max(checks, {}, &DeviceCheck::built_seconds).built_seconds;
    EXPECT_NEAR(outcome.summary.seconds_per_image / built, 1, 0.01) << cluster;
  }
}

// Gradients wait there, and with them activations and errors, most on the last device.
TEST(SmallRings, ZeroBubbleCountsWhatWaitsForGradients) {
  const Graph graph(find_model("lenet5"));
  for (const auto& [mini_batch, micro_batch] : {std::pair(64, 4), {64, 16}, {32, 1}}) {
    const auto plan_with = [&](Alignment alignment) {
      return outcome_of(graph, "cpux4", Accounting::kFull, shipped_catalogue(), micro_batch, mini_batch, alignment);
    };
    const Outcome outcome = plan_with(Alignment::kZeroBubble);
    ASSERT_TRUE(outcome.plan);
    const SimulationResult run = simulate(*outcome.plan, graph, {.samples = 6 * mini_batch});
    for (const SimulatedDevice& device : run.devices) EXPECT_LE(device.act_ram_peak_bits, device.act_ram_plan_bits) << micro_batch;
    EXPECT_LE(run.in_flight_samples, outcome.summary.in_flight_samples) << micro_batch;
    const Outcome at_once = plan_with(Alignment::kOneForwardOneBackward);
    EXPECT_GT(outcome.summary.devices.back().memory, at_once.summary.devices.back().memory) << micro_batch;
  }
}

// Some fill for longer than others, or slow down late.
TEST(SmallRings, KeepTheirPaceOverManyMiniBatches) {
  struct Case {
    Graph graph;
    const char* cluster;
    int64_t mini_batch;
  };
  const Case cases[] = {
      {small_net("input{channels:4 height:5 width:5}",
                 R"(layers{name:"c0" conv2d{out_channels:16 kernel:3 pad:1 stride:3 dilation:2 bias:false}} layers{name:"r0" leaky_relu{}}
                    layers{name:"flat" flatten{}} layers{name:"fc" dense{out_features:100}})"),
       "vc1802x4", 16},
      {small_net("input_kind:FEATURES input{channels:40 height:20 width:1}",
                 R"(layers{name:"l0" rnn_relu{hidden:16}} layers{name:"l1" rnn_tanh{hidden:1}}
                    layers{name:"b1" batch_norm{statistics:RUNNING}} layers{name:"last" last_step{}}
                    layers{name:"fc" dense{out_features:100}})"),
       "vu13px3", 30}};
  for (const Case& at : cases) {
    const Outcome outcome = outcome_of(at.graph, at.cluster, Accounting::kFull, shipped_catalogue(), 0, at.mini_batch);
    ASSERT_TRUE(outcome.plan) << at.cluster << ": " << outcome.reason.text;
    const SimulationResult run = simulate(*outcome.plan, at.graph, {.samples = 8 * at.mini_batch, .act_ram = 1});
    EXPECT_NEAR(mini_batch_rate(*outcome.plan, run) / outcome.summary.images_per_second, 1, 5e-3) << at.cluster;
  }
}

}  // namespace
}  // namespace millrace
