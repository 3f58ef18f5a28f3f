// Layers divided by output channels over generated devices: what each one holds, sends and makes, alone and joined in their ring.
#include <gtest/gtest.h>

#include "tests/fpga/conv_ce/generator/device_checks.h"
#include "tests/fpga/conv_ce/generator/layer_models.h"
#include "tests/fpga/conv_ce/generator/ring_bench.h"

namespace millrace {
namespace {

constexpr Split kIcp = Split::kInputChannels, kOcp = Split::kOutputChannels;
const std::vector<Split> kFirst = {kOcp, kIcp, kIcp, kIcp};
const std::vector<Split> kSecond = {kIcp, kOcp, kIcp, kIcp};
const std::vector<Split> kLast = {kIcp, kIcp, kIcp, kOcp};
const std::vector<Split> kAll = {kOcp, kOcp, kOcp, kOcp};

// Cuts inside groups of two lanes, so that neighbours share one. The first, a middle and the last device of a group each.
const std::vector<Cut> kFirstInThree = {{0, 2, 0}, {0, 3, 0}};
const std::vector<Cut> kSecondInThree = {{1, 1, 0}, {1, 3, 0}};

class DividedOutputs : public DeviceChecks {
 protected:
  void ring_passes(const Graph& graph, const std::vector<Cut>& cuts, const std::vector<Split>& splits,
                   const WeightSource& weights = some_weights) {
    if (!succeeds("iverilog -V")) GTEST_SKIP() << "iverilog is not installed";
    const RingBench bench(cut_plan(graph, cuts, /*tiles=*/5, splits), graph, weights);
    bench.write(folder_.path() / "ring");
    EXPECT_EQ(bench.run(folder_.path() / "ring"), "PASS");
  }
};

using DividedOutputsLong = DividedOutputs;  // what a case of the other covers in part

TEST_F(DividedOutputs, EveryDeviceTakesTheWholeInputAndItsOutputs) {
  const Graph graph(strided_model());
  const Plan plan = cut_plan(graph, kFirstInThree, /*tiles=*/5, kFirst);
  const ShardDesign first = device_design(plan, graph, 0, ones).shards[0];
  const ShardDesign middle = device_design(plan, graph, 1, ones).shards[0];
  const ShardDesign last = device_design(plan, graph, 2, ones).shards[0];
  for (const ShardDesign* shard : {&first, &middle, &last}) EXPECT_EQ(shard->inputs, (ChannelRange{0, 2})) << "all of them";
  EXPECT_EQ(middle.passed(), 2) << "and all go on";
  EXPECT_FALSE(last.passes_on());
  EXPECT_EQ(first.outputs, (ChannelRange{0, 2}));
  EXPECT_EQ(middle.outputs, (ChannelRange{2, 4}));
  EXPECT_EQ(last.outputs, (ChannelRange{2, 5}));
  EXPECT_EQ(middle.outputs_before, 2);
  EXPECT_EQ(last.outputs_before, 4) << "both hold the second group of lanes";
  // Each weight once: output 2 is the middle device's, output 3 the last one's.
  const size_t kernels = 2 * 9;
  EXPECT_EQ(middle.weight[0], last.weight[kernels]);
  EXPECT_NE(middle.weight[0], 0);
  EXPECT_EQ(middle.weight[kernels], 0);
  EXPECT_EQ(last.weight[0], 0);
  // The last one adds the bias to all outputs, so it makes the gradients of all.
  EXPECT_FALSE(middle.sums_all_biases());
  EXPECT_EQ(last.biases(), 5);
  EXPECT_EQ(last.bias.size(), 5U);
  EXPECT_EQ(last.scale.size(), 5U);
}

// Its errors come through an average and the ReLU before that, in blocks of rows that must be parted row by row.
TEST_F(DividedOutputs, OfTheFirstLayerPassUnderIcarus) {
  pass_under_icarus(Graph(average_model()), {{0, 2, 0}, {0, 3, 0}, {1, 0, 0}}, kFirst, some_weights, {.first = 0, .end = 3});
}

// Behind another layer each device makes a part of the input's errors, which are added up from the last to the first.
TEST_F(DividedOutputsLong, BehindAnotherLayerPassUnderIcarus) { pass_under_icarus(Graph(average_model()), kSecondInThree, kSecond); }

TEST_F(DividedOutputsLong, BehindAStridePassUnderIcarus) { pass_under_icarus(Graph(strided_model()), kSecondInThree, kSecond); }

TEST_F(DividedOutputs, OfADenseLayerPassUnderIcarus) {
  pass_under_icarus(Graph(strided_model()), {{3, 0, 0}, {3, 1, 0}, {3, 3, 0}}, kLast, some_weights, {.first = 1});
}

TEST_F(DividedOutputsLong, BeforeAFoldedBatchNormPassUnderIcarus) {
  pass_under_icarus(Graph(normalised_model(/*frozen=*/true)), {{0, 3, 0}, {1, 2, 0}}, kAll, normalising_weights);
}

TEST_F(DividedOutputs, AreCleanWithoutWaivers) {
  are_clean(Graph(average_model()), {{0, 2, 0}, {0, 3, 0}, {1, 0, 0}}, kFirst, some_weights, {.first = 0, .end = 3});
  are_clean(Graph(strided_model()), {{1, 0, 0}, {1, 1, 0}, {1, 3, 0}, {2, 0, 0}}, kSecond, some_weights, {.first = 1, .end = 4});
  are_clean(Graph(normalised_model(/*frozen=*/true)), {{0, 3, 0}, {1, 2, 0}, {2, 0, 0}}, kAll, normalising_weights, {.first = 0, .end = 2});
}

// Device to device, beat by beat, with the neighbours' own pauses: nothing stands still, and whole mini-batches come out as modelled.
TEST_F(DividedOutputsLong, OfTheFirstLayerTrainInARing) { ring_passes(Graph(strided_model()), kFirstInThree, kFirst); }

TEST_F(DividedOutputsLong, BehindAnotherLayerTrainInARing) { ring_passes(Graph(strided_model()), kSecondInThree, kSecond); }

// Groups of both kinds, one ending where the next begins; a dense layer last.
TEST_F(DividedOutputs, BesideDividedInputsTrainInARing) {
  ring_passes(Graph(normalised_model(/*frozen=*/true)), {{0, 3, 0}, {1, 3, 2}, {2, 1, 0}, {3, 2, 0}}, {kOcp, kIcp, kOcp, kOcp},
              normalising_weights);
}

// What comes out of a group is what one device makes of the whole layer.
TEST_F(DividedOutputs, MakeWhatTheUndividedLayerMakes) {
  const Graph graph(average_model());
  const RingBench divided(cut_plan(graph, kFirstInThree, /*tiles=*/5, kFirst), graph, some_weights);
  const RingBench whole(cut_plan(graph, {}, /*tiles=*/5), graph, some_weights);
  EXPECT_EQ(divided.last_output(), whole.last_output());
  // Of the first layer: the last device has the outputs from 2 on, so all that it knows of output 4 is in its last kernel.
  const std::vector<int32_t> all = whole.gradient_of(0, 0), mine = divided.gradient_of(2, 0);
  const size_t kernels = 2 * 9;
  ASSERT_EQ(all.size(), 5 * kernels);
  ASSERT_EQ(mine.size(), 3 * kernels);
  EXPECT_TRUE(std::equal(mine.end() - static_cast<int64_t>(kernels), mine.end(), all.end() - static_cast<int64_t>(kernels)));
  EXPECT_EQ(divided.bias_gradient_of(2, 0), whole.bias_gradient_of(0, 0));
}

}  // namespace
}  // namespace millrace
