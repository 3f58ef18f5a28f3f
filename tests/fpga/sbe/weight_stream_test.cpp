// What a plan says of an engine is what the engine was.
#include "fpga/sbe/weight_stream.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/graph/frozen_model.h"
#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

constexpr SbeConfig kEngine{.shape = {256, 256, 4},
                            .row_lanes = 256,
                            .columns = 4,
                            .block_chunks = 8,
                            .slots = 3,
                            .pinned = Pinned::kHidden,
                            .inputs_share_bus = false,
                            .streams = 2,
                            .steps = 10};

Shard shard_with(const SbeConfig& config) {
  Shard shard;
  shard.layer = "lstm1";
  shard.resources = {{"dsp", 900}};
  for (NamedAmount& amount : weight_stream_amounts(config)) shard.resources.push_back(std::move(amount));
  return shard;
}

Graph graph_of(const std::string& cell) {
  return Graph(frozen_model(parse_model(
      fmt::format("version: 1\nname: \"walk\"\ninput {{ channels: 256 height: 40 width: 1 }}\ninput_kind: FEATURES\n"
                  "layers {{ name: \"lstm1\" {} }}\nlayers {{ name: \"last\" last_step {{}} }}\n"
                  "layers {{ name: \"fc\" dense {{ out_features: 4 }} }}\nlayers {{ name: \"loss\" softmax_cross_entropy {{}} }}\n",
                  cell),
      "walk")));
}
const Node& layer_of(const Graph& graph) { return graph.node(graph.index_of("lstm1")); }

TEST(WeightStream, ComesBackAsItWas) {
  const Graph graph = graph_of("lstm { hidden: 256 }");
  const Node& node = layer_of(graph);
  EXPECT_EQ(sbe_shape_of(node), kEngine.shape);
  const std::optional<SbeConfig> back = weight_stream_of(shard_with(kEngine), node);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(weight_stream_amounts(*back), weight_stream_amounts(kEngine));
  EXPECT_EQ(back->row_lanes, 256);
  EXPECT_EQ(back->pinned, Pinned::kHidden);
  EXPECT_FALSE(back->inputs_share_bus);
  Shard without;
  without.resources = {{"dsp", 900}};
  EXPECT_FALSE(weight_stream_of(without, node).has_value());
}

TEST(WeightStream, RefusesWhatCannotBeBuilt) {
  const Graph graph = graph_of("lstm { hidden: 256 }");
  const Node& node = layer_of(graph);
  const auto refused = [&node](const char* name, double value, const char* reason) {
    Shard shard = shard_with(kEngine);
    for (NamedAmount& amount : shard.resources)
      if (amount.name == std::string("weight_stream_") + name) amount.amount = value;
    expect_error(ErrorCode::kMalformed, reason, [&] { weight_stream_of(shard, node); });
  };
  refused("row_lanes", 255, "a multiple of the 4 gates");
  refused("row_lanes", 2048, "at most the 1024 rows");
  refused("slots", 1, "at least 2");
  refused("slots", 9, "at most 8");
  refused("block_chunks", 0, "blocks of 0 chunks");
  refused("streams", 1e9, "at most 16777216 in all");
  refused("streams", 0, "at least 1 of each");
  refused("tail_units", 0, "at least 1");
  refused("words_per_cycle", 0, "at least 1");
  refused("columns", 1.5, "whole number");
  refused("steps", 3, "the layer has 40 steps, and passes of 3 do not make them up");
  refused("steps", 80, "give a divisor");
  refused("pinned", 3, "0, 1 or 2");
  Shard shard = shard_with(kEngine);
  shard.resources.pop_back();
  std::erase_if(shard.resources, [](const NamedAmount& amount) { return amount.name == "weight_stream_slots"; });
  expect_error(ErrorCode::kMalformed, "weight_stream_slots is missing", [&] { weight_stream_of(shard, node); });
}

TEST(WeightStream, RefusesLayersThatBoardsDoNotCompute) {
  const auto refused = [](const char* cell, const char* reason) {
    const Graph graph = graph_of(cell);
    expect_error(ErrorCode::kUnavailable, reason, [&] { sbe_shape_of(layer_of(graph)); });
    EXPECT_NE(sbe_refusal(layer_of(graph)).find(reason), std::string::npos);
  };
  refused("lstm { hidden: 8 bidirectional: true }", "walks one direction");
  refused("gru { hidden: 8 }", "set reset_after");
  refused("lstm { hidden: 8 gate_activation: HARD_SIGMOID gate_slope: 0.3 }", "boards have 0.2 and 1/6");
  const Graph fifth = graph_of("lstm { hidden: 8 gate_activation: HARD_SIGMOID gate_slope: 0.2 }");
  EXPECT_EQ(sbe_shape_of(layer_of(fifth)).hidden, 8);
  EXPECT_EQ(sbe_refusal(layer_of(fifth)), "");
}

}  // namespace
}  // namespace millrace
