#include "fpga/conv_ce/special_function.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/graph/model_builder.h"

namespace millrace {

namespace {

constexpr Window kPool{.kernel = 3, .stride = 2};

// The layers of `net` after its first convolution, at 16 bits.
SpecialFunctionUse use_of(ModelBuilder& net, double lifetime, int copies = 2) {
  const Graph graph(net.finish());
  std::vector<const Node*> after;
  for (const int64_t node : graph.groups()[0].after) after.push_back(&graph.node(node));
  return special_function_use(after, lifetime, 16, copies);
}

ModelBuilder convolution() {
  ModelBuilder net("net", {3, 32, 32});
  net.conv("conv", 20, {.kernel = 3, .pad = 1});
  return net;
}

void tail(ModelBuilder& net) { net.conv("next", 4, {.kernel = 3, .pad = 1}); }

}  // namespace

// AlexNet's first group: LRN keeps its input, the pooling four bits per output for nine places.
TEST(SpecialFunction, NormAndMaxPooling) {
  ModelBuilder net("net", {3, 227, 227});
  net.conv("conv", 96, {.kernel = 11, .stride = 4});
  net.relu("relu");
  net.layer("norm", LocalResponseNorm{});
  net.max_pool("pool", kPool);
  tail(net);
  const SpecialFunctionUse use = use_of(net, 0.5);
  EXPECT_DOUBLE_EQ(use.kept_bits, 96 * 55 * 16 * (0.5 * 55) + 96 * 27 * 4 * ((0.5 - 2.0 / 55) * 27));
  EXPECT_DOUBLE_EQ(use.lines.bits, 96 * 55 * 2 * 16);
  EXPECT_DOUBLE_EQ(use.lines.block_bits, use.lines.bits);
}

TEST(SpecialFunction, AtLeastOneRowIsKept) {
  ModelBuilder net = convolution();
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  tail(net);
  EXPECT_DOUBLE_EQ(use_of(net, 0).kept_bits, 20 * 16 * 2);
}

TEST(SpecialFunction, AReluThatTheNextLayerSeesKeepsNothing) {
  ModelBuilder net = convolution();
  net.relu("relu");
  tail(net);
  EXPECT_DOUBLE_EQ(use_of(net, 1).kept_bits, 0);
}

TEST(SpecialFunction, AReluBehindAnAverageKeepsItsSigns) {
  ModelBuilder net = convolution();
  net.relu("relu");
  net.layer("pool", Pool2d{.kind = PoolKind::kAverage});
  tail(net);
  EXPECT_DOUBLE_EQ(use_of(net, 1).kept_bits, 20 * 32 * 32);
}

TEST(SpecialFunction, ASigmoidBehindAnAverageKeepsItsOutput) {
  ModelBuilder net = convolution();
  net.layer("sigmoid", Activation{.kind = ActivationKind::kSigmoid});
  net.layer("pool", GlobalPool{});
  net.layer("flatten", Flatten{});
  net.dense("fc", 3);
  EXPECT_DOUBLE_EQ(use_of(net, 1).kept_bits, 20 * 32 * 32 * 16);
}

TEST(SpecialFunction, BatchNormKeepsXHatAndItsScales) {
  ModelBuilder net = convolution();
  net.layer("norm", BatchNorm{});
  tail(net);
  const SpecialFunctionUse use = use_of(net, 0.25, 3);
  EXPECT_DOUBLE_EQ(use.kept_bits, 20 * 32 * 8 * 16);
  EXPECT_DOUBLE_EQ(use.vectors.bits, 20 * (2 * 3 + 2) * 16);
  EXPECT_GT(use.vectors.luts, 0);  // two channel groups deep: LUTRAM
  EXPECT_EQ(use.vectors.block_bits, 0);
}

TEST(SpecialFunction, DropoutIsRecomputed) {
  ModelBuilder net = convolution();
  net.dropout("dropout", 0.5);
  tail(net);
  EXPECT_DOUBLE_EQ(use_of(net, 1).kept_bits, 0);
}

TEST(SpecialFunction, AJoinHoldsTheOperandThatComesFirst) {
  ModelBuilder net("net", {20, 32, 32});
  net.conv("conv", 20, {.kernel = 3, .pad = 1});
  const std::string shortcut = net.relu("relu");
  net.dropout("main", 0.5);
  net.add("join", {net.last(), shortcut});
  tail(net);
  EXPECT_DOUBLE_EQ(use_of(net, 1).lines.bits, 20 * 32 * 16 * 2 * kJoinRows);
}

TEST(SpecialFunction, NothingIsKeptWhereNoErrorPasses) {
  ModelBuilder net = convolution();
  net.max_pool("pool", kPool);
  net.layer("norm", BatchNorm{});
  tail(net);
  Model model = net.finish();
  model.layers[0].frozen = model.layers[2].frozen = true;
  const Graph graph(std::move(model));
  std::vector<const Node*> after{&graph.node(1), &graph.node(2)};
  const SpecialFunctionUse use = special_function_use(after, 1, 16, 2);
  EXPECT_EQ(use.kept_bits, 0);
  EXPECT_DOUBLE_EQ(use.vectors.bits, 20 * 4 * 16);
}

}  // namespace millrace
