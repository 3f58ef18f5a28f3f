// What a plan says of an engine is what the engine was.
#include "fpga/sbe/weight_stream.h"

#include <gtest/gtest.h>

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

TEST(WeightStream, ComesBackAsItWas) {
  const std::optional<SbeConfig> back = weight_stream_of(shard_with(kEngine), kEngine.shape);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(weight_stream_amounts(*back), weight_stream_amounts(kEngine));
  EXPECT_EQ(back->row_lanes, 256);
  EXPECT_EQ(back->pinned, Pinned::kHidden);
  EXPECT_FALSE(back->inputs_share_bus);
  Shard without;
  without.resources = {{"dsp", 900}};
  EXPECT_FALSE(weight_stream_of(without, kEngine.shape).has_value());
}

TEST(WeightStream, RefusesWhatCannotBeBuilt) {
  const auto refused = [](const char* name, double value, const char* reason) {
    Shard shard = shard_with(kEngine);
    for (NamedAmount& amount : shard.resources)
      if (amount.name == std::string("weight_stream_") + name) amount.amount = value;
    expect_error(ErrorCode::kMalformed, reason, [&] { weight_stream_of(shard, kEngine.shape); });
  };
  refused("row_lanes", 255, "a multiple of the 4 gates");
  refused("row_lanes", 2048, "at most the 1024 rows");
  refused("slots", 1, "at least 2");
  refused("block_chunks", 0, "blocks of 0 chunks");
  refused("words_per_cycle", 0, "at least 1");
  refused("columns", 1.5, "whole number");
  refused("pinned", 3, "0, 1 or 2");
  Shard shard = shard_with(kEngine);
  shard.resources.pop_back();
  std::erase_if(shard.resources, [](const NamedAmount& amount) { return amount.name == "weight_stream_slots"; });
  expect_error(ErrorCode::kMalformed, "weight_stream_slots is missing", [&] { weight_stream_of(shard, kEngine.shape); });
}

}  // namespace
}  // namespace millrace
