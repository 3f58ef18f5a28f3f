#include "fpga/cost/layer_geometry.h"

#include <gtest/gtest.h>

#include <array>

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"

namespace millrace {

namespace {

ShardGeometry whole(const Graph& graph, std::string_view layer, bool owner = true) {
  return geometry_of(graph.node(graph.index_of(layer)), {}, owner);
}

}  // namespace

TEST(ShardGeometry, AlexNetsFirstLayer) {
  const Graph graph(zoo_model("alexnet"));
  const ShardGeometry conv = whole(graph, "conv1");
  EXPECT_EQ(conv.unit, StreamingUnit::kRow);
  EXPECT_EQ(conv.kernels, 3 * 96);
  EXPECT_EQ(conv.tile, 121);
  EXPECT_EQ(conv.weights, 3 * 96 * 121);
  EXPECT_EQ(conv.forward.units, 55);
  EXPECT_EQ(conv.forward.work, 3 * 96 * 55);
  EXPECT_EQ(conv.error_back.units, 227);
  EXPECT_EQ(conv.error_back.work, (3 * 96 * 55 * 55 + 226) / 227);
  EXPECT_EQ(conv.reach, 11);
  EXPECT_EQ(conv.vectors, 96);
  EXPECT_TRUE(conv.error_comes);  // EB counts here, though no image error is sent
}

TEST(ShardGeometry, BlocksWithBoundaryChannels) {
  const Graph graph(zoo_model("vgg16"));
  const std::array<Block, 3> blocks{{{{9, 10}, {100, 128}}, {{10, 30}, {0, 128}}, {{30, 31}, {0, 5}}}};
  const ShardGeometry shard = geometry_of(graph.node(graph.index_of("conv2_2")), blocks, false);
  EXPECT_EQ(shard.kernels, 28 + 20 * 128 + 5);
  EXPECT_EQ(shard.inputs, 22);
  EXPECT_EQ(shard.outputs, 128);
  EXPECT_EQ(shard.weights, shard.kernels * 9);
  EXPECT_EQ(shard.forward.work, shard.kernels * 112);
  EXPECT_EQ(shard.error_back.work, shard.kernels * 112);
  EXPECT_EQ(shard.vectors, 0);
  const std::array<Block, 1> inside{{{{9, 10}, {100, 110}}}};
  EXPECT_EQ(geometry_of(graph.node(graph.index_of("conv2_2")), inside, false).outputs, 10);
}

TEST(ShardGeometry, GroupedConvolutionsCountRealPairs) {
  const Graph graph(zoo_model("alexnet-grouped"));
  const ShardGeometry conv = whole(graph, "conv2");
  EXPECT_EQ(conv.kernels, 48 * 256);
  const std::array<Block, 1> half{{{{48, 96}, {128, 256}}}};
  const ShardGeometry shard = geometry_of(graph.node(graph.index_of("conv2")), half, true);
  EXPECT_EQ(shard.kernels, 48 * 128);
  EXPECT_EQ(shard.inputs, 48);
}

TEST(ShardGeometry, DenseLayersAreKernelsOfOneProductOffChip) {
  const Graph graph(zoo_model("vgg16"));
  const ShardGeometry dense = whole(graph, "fc6");
  EXPECT_EQ(dense.unit, StreamingUnit::kSample);
  EXPECT_EQ(dense.place, WeightPlace::kOffChip);
  EXPECT_EQ(dense.tile, 1);
  EXPECT_EQ(dense.forward.units, 1);
  EXPECT_EQ(dense.forward.work, 25088 * 4096);
  EXPECT_EQ(dense.vectors, 4096);
}

TEST(ShardGeometry, RecurrentLayersKeepTheirStateOnTheOwner) {
  ModelBuilder net("recurrent", {40, 12, 1});
  net.layer("lstm", Recurrent{.cell = CellKind::kLstm, .hidden = 32, .projection = 16});
  net.layer("gru", Recurrent{.cell = CellKind::kGru, .hidden = 24, .bidirectional = true});
  net.layer("last", LastStep{});
  net.dense("fc", 4);
  const Graph graph(net.finish());
  const ShardGeometry lstm = whole(graph, "lstm");
  EXPECT_EQ(lstm.unit, StreamingUnit::kStep);
  EXPECT_EQ(lstm.place, WeightPlace::kStationary);
  EXPECT_EQ(lstm.forward.units, 12);
  EXPECT_EQ(lstm.forward.work, 128 * 40 + 128 * 16 + 16 * 32);  // x W, h U, the projection
  EXPECT_EQ(lstm.vectors, 2 * 128);
  EXPECT_EQ(lstm.state, 6 * 32 + 16);
  const ShardGeometry inputs_only = whole(graph, "lstm", false);
  EXPECT_EQ(inputs_only.forward.work, 128 * 40);
  EXPECT_EQ(inputs_only.state, 0);
  const ShardGeometry gru = whole(graph, "gru");
  EXPECT_EQ(gru.forward.work, 2 * (72 * 16 + 72 * 24));
  EXPECT_EQ(gru.state, 2 * 5 * 24);
}

TEST(ShardGeometry, EmbeddingsAndPoolingsHaveNoEngine) {
  const Graph text(zoo_model("text-classifier"));
  for (const Node& node : text.nodes()) {
    const auto* table = std::get_if<Embedding>(&node.layer.operation);
    if (table == nullptr) continue;
    const ShardGeometry shard = geometry_of(node, {}, true);
    EXPECT_FALSE(shard.has_engine());
    EXPECT_EQ(shard.weights, table->vocabulary * table->dimension);
    EXPECT_EQ(shard.place, WeightPlace::kOffChip);
  }
  ModelBuilder net("pool first", {3, 8, 8});
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.conv("conv", 4, {.kernel = 3, .pad = 1});
  const Graph graph(net.finish());
  EXPECT_FALSE(whole(graph, "pool").has_engine());
  EXPECT_EQ(whole(graph, "pool").weights, 0);
}

TEST(ShardGeometry, FrozenLayersMakeNoGradients) {
  ModelBuilder net("frozen", {3, 8, 8});
  net.conv("first", 4, {.kernel = 3, .pad = 1});
  net.conv("second", 4, {.kernel = 3, .pad = 1});
  net.conv("third", 4, {.kernel = 3, .pad = 1});
  Model model = net.finish();
  model.layers[0].frozen = model.layers[2].frozen = true;
  const Graph graph(std::move(model));
  EXPECT_FALSE(whole(graph, "first").trained);
  EXPECT_FALSE(whole(graph, "first").error_comes);
  EXPECT_TRUE(whole(graph, "second").trained);
  EXPECT_FALSE(whole(graph, "third").trained);
  EXPECT_TRUE(whole(graph, "third").error_comes);
}

// Rows times work per row times a tile's products is the graph's count, for every layer of every model.
TEST(ShardGeometry, WorkIsTheGraphsCount) {
  for (const std::string& name : zoo_names()) {
    const Graph graph(zoo_model(name));
    for (const Node& node : graph.nodes()) {
      if (!node.computes) continue;
      const ShardGeometry shard = geometry_of(node, {}, true);
      EXPECT_EQ(shard.forward.units * shard.forward.work * shard.tile, node.work.forward_macs) << name << " " << node.layer.name;
      const int64_t error_back = shard.error_back.units * shard.error_back.work * shard.tile;
      EXPECT_GE(error_back, node.work.forward_macs) << name << " " << node.layer.name;
      EXPECT_LT(error_back - shard.error_back.units * shard.tile, node.work.forward_macs) << name << " " << node.layer.name;
      EXPECT_EQ(shard.weights + shard.vectors, node.work.parameters) << name << " " << node.layer.name;
    }
  }
}

}  // namespace millrace
