#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/cpu/convolution_rates.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/graph/zoo.h"

namespace millrace {

namespace {

ShardQuestion question(const Node& node, std::span<const Block> blocks = {}, int64_t micro_batch = 1) {
  ShardQuestion question;
  question.node = &node;
  question.blocks = blocks;
  question.micro_batch = micro_batch;
  return question;
}

double amount(const ShardCost& cost, std::string_view name) {
  for (const NamedAmount& resource : cost.resources)
    if (resource.name == name) return resource.amount;
  return -1;
}

}  // namespace

TEST(CpuCostModel, AConvolutionTakesItsMacsAtThePeakTimesTheEfficiency) {
  const Graph graph(zoo_model("vgg16-cifar"));
  const CpuProfile profile{.bytes_per_second = 1e15, .launch_seconds = 1e-15};  // nothing but arithmetic
  const auto model = make_cpu_cost_model(profile);
  const Node& conv = graph.node(graph.index_of("conv2_2"));
  const ShardCost cost = model->cost_of(question(conv, {}, 8));
  const double macs = 128.0 * 128 * 9 * 16 * 16;
  ASSERT_EQ(cost.phases.size(), 3U);
  EXPECT_NEAR(static_cast<double>(cost.phases[0].picoseconds_per_unit),
              1e12 * macs / (profile.macs_per_second * profile.convolution.forward), 2);
  EXPECT_NEAR(cost.seconds_per_sample,
              macs / profile.macs_per_second *
                  (1 / profile.convolution.forward + 1 / profile.convolution.error_back + 1 / profile.convolution.parameter_gradient),
              1e-9);
}

TEST(CpuCostModel, AMeasuredShapeSetsItsOwnPace) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuProfile profile{.bytes_per_second = 1e15, .launch_seconds = 1e-15};
  profile.convolutions = {{64, 128, 16, 16, 3, 1, 8, {2, 1, 0.5}, 0}, {128, 128, 16, 16, 3, 1, 8, {0.25, 0.5, 0.125}, 0}};
  const auto model = make_cpu_cost_model(profile);
  const auto plain = make_cpu_cost_model({.bytes_per_second = 1e15, .launch_seconds = 1e-15});
  const auto seconds = [&](const CostModel& asked, const char* layer, int64_t micro_batch) {
    return asked.cost_of(question(graph.node(graph.index_of(layer)), {}, micro_batch)).seconds_per_sample;
  };
  const double macs = 128.0 * 128 * 9 * 16 * 16 / profile.macs_per_second;
  EXPECT_NEAR(seconds(*model, "conv2_1", 8), macs / 2 * (1 / 2.0 + 1 + 2), 1e-9);
  EXPECT_NEAR(seconds(*model, "conv2_2", 8), macs * (4 + 2 + 8), 1e-9);
  EXPECT_NEAR(seconds(*model, "conv2_2", 64), macs * (4 + 2 + 8), 1e-9);  // far from the micro-batch that was measured
  EXPECT_EQ(seconds(*model, "conv5_1", 8), seconds(*plain, "conv5_1", 8));
  // A part of the layer goes by the layer.
  const Block half{{0, 128}, {0, 64}};
  const Node& conv = graph.node(graph.index_of("conv2_2"));
  EXPECT_NEAR(model->cost_of(question(conv, std::span(&half, 1), 8)).seconds_per_sample, macs / 2 * (4 + 2 + 8), 1e-9);
}

// Transforms of weights come once per micro-batch: what was measured at a large one does not hold for small ones.
TEST(CpuCostModel, TimesOfMicroBatchesAreStraightLinesBetweenMeasuredOnes) {
  const auto point = [](int64_t micro_batch, double share) {
    return MeasuredConvolution{128, 128, 16, 16, 3, 1, micro_batch, {share, share, share}, 0};
  };
  // By the times of micro-batches: 4 of 2 samples, 10 of 8, 80 of 64.
  const std::vector<MeasuredConvolution> three = {point(64, 64 / 80.0), point(2, 2 / 4.0), point(8, 8 / 10.0)};
  const auto time_at = [&](const cpu::ConvolutionRates& rates, int64_t micro_batch) {
    return static_cast<double>(micro_batch) / rates.of(point(micro_batch, 1))->efficiency.error_back;
  };
  const cpu::ConvolutionRates own(three, {});
  for (const auto& [micro_batch, time] : {std::pair<int64_t, double>{1, 3}, {2, 4}, {5, 7}, {8, 10}, {36, 45}, {64, 80}, {128, 160}})
    EXPECT_NEAR(time_at(own, micro_batch), time, 1e-9) << micro_batch;
  // One point of this machine, twice as fast as another's curve there: the curve goes on behind it.
  const cpu::ConvolutionRates as_others({point(8, 2 * 8 / 10.0)}, three);
  for (const auto& [micro_batch, time] : {std::pair<int64_t, double>{1, 1.5}, {2, 2}, {8, 5}, {36, 22.5}, {64, 40}})
    EXPECT_NEAR(time_at(as_others, micro_batch), time, 1e-9) << micro_batch;
  // Samples of fewer are no faster than those of the fewest that were measured.
  const cpu::ConvolutionRates falling({point(4, 1), point(8, 0.5)}, {});
  EXPECT_NEAR(time_at(falling, 1), 1, 1e-9);
}

TEST(CpuCostModel, WinogradsWeightsAreMemory) {
  const Graph graph(zoo_model("vgg16-cifar"));
  CpuProfile profile;
  profile.convolutions = {{128, 128, 16, 16, 3, 1, 8, {2, 1, 0.5}, 0}};
  const auto without = make_cpu_cost_model(profile);
  profile.convolutions[0].weight_copies = 8;
  const auto with = make_cpu_cost_model(profile);
  const Block half{{0, 128}, {0, 64}};
  const ShardQuestion asked = question(graph.node(graph.index_of("conv2_2")), std::span(&half, 1), 8);
  const double copies = 8 * sizeof(float) * (128.0 * 64 * 9 + 64);  // biases with them
  EXPECT_DOUBLE_EQ(with->demand_of(asked).amounts[0] - without->demand_of(asked).amounts[0], copies);
  EXPECT_DOUBLE_EQ(amount(with->cost_of(asked), "memory_bytes") - amount(without->cost_of(asked), "memory_bytes"), copies);
  EXPECT_EQ(with->demand_of(asked).parameters, without->demand_of(asked).parameters);
}

TEST(CpuCostModel, ShapesAreShippedForEachInstructionSet) {
  const auto plain = make_cpu_cost_model(CpuProfile{});
  for (const char* isa : {"avx512_core", "avx2"}) {
    const auto shipped = make_cpu_cost_model(shipped_cpu_profile(isa));
    for (const char* name : {"vgg16-cifar", "resnet18-cifar"}) {
      const Graph graph(zoo_model(name));
      for (const Node& node : graph.nodes())
        for (const int64_t micro_batch : {1, 8, 32, 128}) {
          if (!std::holds_alternative<Conv2d>(node.layer.operation)) continue;
          const ShardQuestion asked = question(node, {}, micro_batch);
          EXPECT_NE(shipped->demand_of(asked).seconds, plain->demand_of(asked).seconds)
              << isa << " " << name << " " << node.layer.name << " " << micro_batch;
        }
    }
  }
  // Half as wide, slower.
  const Graph graph(zoo_model("vgg16-cifar"));
  const ShardQuestion asked = question(graph.node(graph.index_of("conv3_2")), {}, 32);
  EXPECT_GT(make_cpu_cost_model(shipped_cpu_profile("avx2"))->demand_of(asked).seconds,
            1.2 * make_cpu_cost_model(shipped_cpu_profile("avx512_core"))->demand_of(asked).seconds);
}

TEST(CpuCostModel, RatesThatAreNoneAreRefusedByLine) {
  const auto refusal = [](const std::string& line) {
    try {
      cpu::parse_convolutions("# here\nisa,convolution,forward,error_back,parameter_gradient\n" + line, "avx2", "a file");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("avx2,128to256_8x8_k3s1_b8,1,0.9,0.8\n"), "accepted");
  for (const char* line :
       {"avx2", "avx2,128to256_8x8_k3s1_b8,1,0.9", "avx2,128to256_8x8_k3s1_b0,1,0.9,0.8", "avx2,128to256_8x8_k3s1_b8,1,0.9,-1",
        "avx2,128to256_8x8_k3s1_b8,1,0.9,0.8,2", "avx2,128to256_8x8_k3_b8,1,0.9,0.8"})
    EXPECT_THAT(refusal(line), ::testing::HasSubstr("line 3")) << line;
}

TEST(CpuCostModel, MeasuresEachShapeOfANetworkOnce) {
  const Graph graph(zoo_model("digits-cnn"));
  CpuProfile profile;
  measure_convolutions(profile, graph, 4);
  ASSERT_FALSE(profile.convolutions.empty());
  const size_t shapes = profile.convolutions.size();
  for (const MeasuredConvolution& convolution : profile.convolutions)
    for (const double share :
         {convolution.efficiency.forward, convolution.efficiency.error_back, convolution.efficiency.parameter_gradient})
      EXPECT_GT(share, 0);
  measure_convolutions(profile, graph, 4);
  EXPECT_EQ(profile.convolutions.size(), shapes);
  measure_convolutions(profile, graph, 2);
  EXPECT_EQ(profile.convolutions.size(), 2 * shapes);
  EXPECT_THROW(measure_convolutions(profile, graph, 0), Error);
}

TEST(CpuCostModel, BlocksShareTheArithmeticOfTheWhole) {
  const Graph graph(zoo_model("vgg16-cifar"));
  const auto model = make_cpu_cost_model({.bytes_per_second = 1e15, .launch_seconds = 1e-15});
  const Node& conv = graph.node(graph.index_of("conv3_2"));
  const auto seconds = [&](const Block& block) { return model->cost_of(question(conv, std::span(&block, 1))).seconds_per_sample; };
  const double whole = seconds({{0, 256}, {0, 256}});
  EXPECT_NEAR(seconds({{0, 64}, {0, 256}}) + seconds({{64, 256}, {0, 256}}), whole, 1e-12);
  EXPECT_NEAR(seconds({{0, 256}, {0, 16}}), whole / 16, 1e-12);
}

TEST(CpuCostModel, SamplesOfAMicroBatchShareALaunch) {
  const Graph graph(zoo_model("digits-cnn"));
  const CpuProfile profile{.launch_seconds = 1e-3};  // nothing else counts beside it
  const auto model = make_cpu_cost_model(profile);
  const Node& conv = graph.node(graph.index_of("conv2"));
  EXPECT_NEAR(model->cost_of(question(conv, {}, 1)).seconds_per_sample, 3e-3, 1e-4);
  EXPECT_NEAR(model->cost_of(question(conv, {}, 8)).seconds_per_sample, 3e-3 / 8, 1e-4);
}

TEST(CpuCostModel, ADenseLayerAtOneSampleIsBoundByItsWeights) {
  const Graph graph(zoo_model("vgg16"));
  const CpuProfile profile;
  const auto model = make_cpu_cost_model(profile);
  const Node& fc6 = graph.node(graph.index_of("fc6"));
  const ShardCost one = model->cost_of(question(fc6));
  EXPECT_GE(one.seconds_per_sample, 6 * 4 * 25088.0 * 4096 / profile.bytes_per_second);
  const ShardCost many = model->cost_of(question(fc6, {}, 64));
  EXPECT_LT(many.seconds_per_sample, one.seconds_per_sample / 4);
}

TEST(CpuCostModel, MemoryGrowsWithTheWindowAndTheSlots) {
  const Graph graph(zoo_model("vgg16-cifar"));
  const auto model = make_cpu_cost_model();
  const Node& conv = graph.node(graph.index_of("conv5_1"));
  const auto memory = [&](int64_t window, int slots) {
    ShardQuestion q = question(conv, {}, 4);
    q.window = window;
    q.optimizer_slots = slots;
    const ShardCost cost = model->cost_of(q);
    return amount(cost, "memory_bytes") + amount(cost, "parameter_memory_bytes");
  };
  const double weights = 4.0 * (512 * 512 * 9 + 512);
  EXPECT_DOUBLE_EQ(memory(1, 2) - memory(1, 0), 2 * weights);
  EXPECT_DOUBLE_EQ(memory(3, 1) - memory(2, 1), 4.0 * 4 * 512 * 2 * 2);
}

TEST(CpuCostModel, TheShortAnswerIsTheLongOne) {
  const Graph graph(zoo_model("resnet18-cifar"));
  const auto model = make_cpu_cost_model();
  for (const LayerGroup& group : graph.groups()) {
    std::vector<const Node*> after;
    for (const int64_t node : group.after) after.push_back(&graph.node(node));
    ShardQuestion q = question(graph.node(group.head), {}, 4);
    q.after = after;
    q.window = 3;
    q.optimizer_slots = 1;
    const ShardDemand demand = model->demand_of(q);
    const ShardCost cost = model->cost_of(q);
    EXPECT_DOUBLE_EQ(demand.seconds, cost.seconds_per_sample);
    EXPECT_DOUBLE_EQ(demand.amounts[model->parameter_memory()], amount(cost, "memory_bytes"));
    EXPECT_DOUBLE_EQ(demand.parameters, amount(cost, "parameter_memory_bytes"));
  }
}

TEST(CpuCostModel, TheFirstLayerHasNoErrorToPassOn) {
  const Graph graph(zoo_model("lenet5"));
  const ShardCost cost = make_cpu_cost_model()->cost_of(question(graph.node(0)));
  for (const PhaseEngine& phase : cost.phases) EXPECT_NE(phase.phase, Phase::kErrorBack);
}

TEST(CpuCostModel, MeasuresThisMachine) {
  const CpuProfile profile = measure_cpu_profile(1);
  EXPECT_GT(profile.macs_per_second, 1e8);
  EXPECT_GT(profile.bytes_per_second, 1e8);
  EXPECT_GT(profile.convolution.forward, 0.01);
  EXPECT_LT(profile.convolution.forward, 5);
  EXPECT_EQ(make_cpu_cost_model(profile)->constants()[0].origin, "measured on this machine");
  EXPECT_THROW(measure_cpu_profile(0), Error);
}

}  // namespace millrace
