#include "fpga/conv_ce/shard_buffers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"
#include "fpga/common/cost/bram_packing.h"
#include "fpga/conv_ce/engine_timing.h"
#include "fpga/conv_ce/shard_packing.h"
#include "fpga/cost/layer_geometry.h"

namespace millrace {

namespace {

class Vgg : public ::testing::Test {
 protected:
  ShardGeometry shard(std::string_view layer, std::span<const Block> blocks, bool owner) const {
    return geometry_of(graph_.node(graph_.index_of(layer)), blocks, owner);
  }

  const Graph graph_{zoo_model("vgg16")};
};

}  // namespace

// Half of conv1_2 (64 x 224 x 224 in and out), not the group's end, 100 tiles per phase.
TEST_F(Vgg, HalfOfALayer) {
  const std::array<Block, 1> half{{{{0, 32}, {0, 64}}}};
  const ShardBuffers buffers =
      shard_buffers(shard("conv1_2", half, false), {.lifetime = 0.9, .owner = false, .forward_tiles = 100, .error_back_tiles = 100}, {});
  EXPECT_DOUBLE_EQ(buffers.act_ram.bits, std::ceil(32 * 224 * 224 * 16 * 0.9));
  EXPECT_DOUBLE_EQ(buffers.error_line.bits, 64 * 3 * 224 * 16);
  EXPECT_DOUBLE_EQ(buffers.partial.bits, 64 * 224 * 16);
  EXPECT_DOUBLE_EQ(buffers.accumulators.bits, 2 * 10 * 224 * 32);  // ten by ten tiles
  EXPECT_DOUBLE_EQ(buffers.parameter_bits, 32 * 64 * 9 * 16 * 2);
  EXPECT_EQ(buffers.kept.bits + buffers.lines.bits + buffers.vectors.bits, 0);
  EXPECT_EQ(buffers.off_chip_bytes, 0);
  EXPECT_DOUBLE_EQ(buffers.fixed().bits, buffers.act_ram.bits + buffers.error_line.bits + buffers.partial.bits + buffers.accumulators.bits);
  EXPECT_EQ(buffers.fixed().luts, 0);
}

TEST_F(Vgg, NoFewerRowsThanTheKernelReads) {
  const ShardGeometry whole = shard("conv5_3", {}, false);
  EXPECT_DOUBLE_EQ(shard_buffers(whole, {.lifetime = 0, .owner = false}, {}).act_ram.bits, 512 * 14 * 3 * 16);
  EXPECT_DOUBLE_EQ(shard_buffers(whole, {.lifetime = 0.5, .owner = false}, {}).act_ram.bits, 512 * 14 * 7 * 16);
}

TEST_F(Vgg, NarrowRowsOfSumsSitInLutram) {
  const ShardBuffers buffers =
      shard_buffers(shard("conv5_3", {}, false), {.owner = false, .forward_tiles = 100, .error_back_tiles = 100}, {});
  EXPECT_EQ(buffers.accumulators.block_bits, 0);
  EXPECT_DOUBLE_EQ(buffers.accumulators.luts, 2 * 10 * 32 * 4.0 / 6);
  EXPECT_GT(buffers.error_line.block_bits, 0);  // 32 channel groups of 14: too deep
}

TEST_F(Vgg, DenseLayersKeepTheirWeightsOffChip) {
  const ShardBuffers buffers = shard_buffers(shard("fc7", {}, true), {.copies = 4}, {});
  EXPECT_DOUBLE_EQ(buffers.off_chip_bytes, 4096.0 * 4096 * 2 * 4);
  EXPECT_EQ(buffers.parameter_bits, 0);
  EXPECT_DOUBLE_EQ(buffers.act_ram.bits, 4096 * 16);
  EXPECT_DOUBLE_EQ(buffers.vectors.bits, 4096 * 16 * 4);
  EXPECT_DOUBLE_EQ(buffers.weight_stream.bits, 3 * 64 * 512);
}

TEST_F(Vgg, ThirtyTwoBitsTakeTwiceTheMemory) {
  const ShardGeometry whole = shard("conv3_2", {}, true);
  const BufferSettings settings{.lifetime = 0.5, .forward_tiles = 64, .error_back_tiles = 64};
  BufferSettings wide = settings;
  wide.element_bits = 32;
  EXPECT_DOUBLE_EQ(shard_buffers(whole, wide, {}).fixed().bits, 2 * shard_buffers(whole, settings, {}).fixed().bits);
  EXPECT_DOUBLE_EQ(shard_buffers(whole, wide, {}).parameter_bits, 2 * shard_buffers(whole, settings, {}).parameter_bits);
}

TEST(ShardBuffers, RecurrentLayersHoldEveryStepAndTheirWeights) {
  ModelBuilder net("recurrent", {40, 12, 1});
  net.layer("lstm", Recurrent{.cell = CellKind::kLstm, .hidden = 32});
  net.layer("last", LastStep{});
  net.dense("fc", 4);
  const Graph graph(net.finish());
  const ShardGeometry lstm = geometry_of(graph.node(0), {}, true);
  const ShardBuffers buffers = shard_buffers(lstm, {.lifetime = 0.2}, {});
  EXPECT_DOUBLE_EQ(buffers.act_ram.bits, 40 * 12 * 16);
  EXPECT_DOUBLE_EQ(buffers.state.bits, 6 * 32 * 12 * 16);
  EXPECT_DOUBLE_EQ(buffers.stationary.bits, 128 * (40 + 32) * 16 * 2);
  EXPECT_EQ(buffers.parameter_bits, 0);
  EXPECT_DOUBLE_EQ(shard_buffers(lstm, {.lifetime = 2}, {}).state.bits, 2 * 6 * 32 * 12 * 16);
}

TEST(ShardBuffers, WithoutAnErrorOnlyTheKernelsRowsAreHeld) {
  ModelBuilder net("frozen", {3, 32, 32});
  net.conv("first", 64, {.kernel = 5, .pad = 2});
  net.conv("second", 4, {.kernel = 3, .pad = 1});
  Model model = net.finish();
  model.layers[0].frozen = true;
  const Graph graph(std::move(model));
  const ShardBuffers buffers = shard_buffers(geometry_of(graph.node(0), {}, true), {.copies = 1}, {});
  EXPECT_DOUBLE_EQ(buffers.act_ram.bits, 3 * 32 * 5 * 16);
  EXPECT_EQ(buffers.error_line.bits, 0);
  EXPECT_DOUBLE_EQ(buffers.parameter_bits, 3 * 64 * 25 * 16);
}

TEST(ShardPacking, BlocksHoldTheBitsAndWasteLittleOfLargeMemories) {
  const Graph graph(zoo_model("vgg16"));
  for (const LayerGroup& group : graph.groups()) {
    const Node& node = graph.node(group.head);
    if (!std::holds_alternative<Conv2d>(node.layer.operation)) continue;
    const ShardGeometry shard = geometry_of(node, {}, true);
    const double cycles = 200e6 * 5e-3;
    const BufferSettings settings{.lifetime = 0.5,
                                  .forward_tiles = engine_for(shard.forward, cycles).tiles,
                                  .error_back_tiles = engine_for(shard.error_back, cycles).tiles};
    const ShardBuffers buffers = shard_buffers(shard, settings, {});
    const PackedShard packed = packed_shard(shard, buffers, settings, {1470, 0});
    EXPECT_GE(packed.fixed.bram36 * kBram36Bits, buffers.fixed().block_bits) << node.layer.name;
    EXPECT_LE(packed.fixed.bram36 * kBram36Bits, 1.6 * buffers.fixed().block_bits + 20 * kBram36Bits) << node.layer.name;
    EXPECT_GE(packed.parameters.bram36 * kBram36Bits, buffers.parameter_bits) << node.layer.name;
    EXPECT_EQ(packed.fixed.urams, 0);
  }
}

}  // namespace millrace
