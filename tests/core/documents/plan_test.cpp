#include "core/documents/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "tests/core/documents/expect_error.h"

namespace millrace {
namespace {

// Two convolutions on two CPUs, the second of them shared.
Plan small_plan() {
  Plan plan;
  plan.model = {.name = "m",
                .input = {3, 8, 8},
                .layers = {{.name = "a", .operation = Conv2d{.out_channels = 4}, .inputs = {"input"}},
                           {.name = "b", .operation = Conv2d{.out_channels = 2}, .inputs = {"a"}}}};
  plan.cluster = uniform_cluster("cpu", 2);
  plan.mini_batch = 8;
  plan.micro_batch = 2;
  plan.windows = {2, 1};
  plan.links = {{0, 1, 1000, 1000, 0, 5}};
  const auto shard = [](int64_t device, const char* layer, const Block& block) {
    Shard made;
    made.device = device;
    made.layer = layer;
    made.blocks = {block};
    return made;
  };
  plan.shards = {shard(0, "a", {{0, 3}, {0, 4}}), shard(0, "b", {{0, 1}, {0, 2}}), shard(1, "b", {{1, 4}, {0, 2}})};
  plan.shards[0].phases = {{Phase::kForward, "direct", 16, 100}};
  plan.groups = {{"a", Split::kWhole, {0}, {}}, {"b", Split::kInputChannels, {1, 2}, {}}};
  plan.homes = {{"a", "weight", 0, 12, 0, 0}};
  plan.flows = {{.link = 0,
                 .stream = Stream::kPartial,
                 .tensor = "b:sum",
                 .channels = {0, 2},
                 .producer_shard = 1,
                 .consumer_shard = 2,
                 .elements_per_sample = 128}};
  plan.constants = {{"cpu.gflops", 100, "measured"}};
  return plan;
}

void expect_refused(const std::string& words, const std::function<void(Plan&)>& change) {
  Plan plan = small_plan();
  change(plan);
  expect_error(ErrorCode::kMalformed, "p.textproto: " + words, [&] { parse_plan(text_of(plan), "p.textproto"); });
}

TEST(PlanDocument, ComesBack) { EXPECT_EQ(parse_plan(text_of(small_plan()), "p"), small_plan()); }

TEST(PlanDocument, TextIsReadable) {
  const std::string text = text_of(small_plan());
  for (const char* line : {
           "\nalignment: FLUSH\n",
           "\nwindows: [2, 1]\n",
           "\nlinks { from: 0 to: 1 forward_bits_per_second: 1000 backward_bits_per_second: 1000 latency_picoseconds: 5 }\n",
           "\ngroups { layer: \"b\" split: ICP shards: [1, 2] }\n",
           "\nhomes { layer: \"a\" tensor: \"weight\" offset: 0 count: 12 home: 0 user: 0 }\n",
           "  blocks { inputs { begin: 0 end: 3 } outputs { begin: 0 end: 4 } }",
           "  layers { name: \"a\" conv2d { out_channels: 4 kernel: 1 } }\n",
       })
    EXPECT_NE(text.find(line), std::string::npos) << line << "is missing in\n" << text;
}

TEST(PlanDocument, ErrorsNameFieldAndValue) {
  expect_refused("micro_batch: 3 must divide mini_batch, which is 8", [](Plan& p) { p.micro_batch = 3; });
  expect_refused("mini_batch: 0 must be positive", [](Plan& p) { p.mini_batch = 0; });
  expect_refused("windows: 3 given; there is one for each of 2 devices", [](Plan& p) { p.windows.push_back(1); });
  expect_refused("windows[1]: 0 must be positive", [](Plan& p) { p.windows[1] = 0; });
  expect_refused("links: 0 given; 2 devices have 1", [](Plan& p) { p.links.clear(), p.flows.clear(); });
  expect_refused("links[0].to: 3 must be 1", [](Plan& p) { p.links[0].to = 3; });
  expect_refused("links[0].forward_bits_per_second: -7 must be positive", [](Plan& p) { p.links[0].forward_bits_per_second = -7; });
  expect_refused("shards[1].device: 2 is none of the 2 devices", [](Plan& p) { p.shards[1].device = 2; });
  expect_refused("shards[1].device: -1 must not be negative", [](Plan& p) { p.shards[1].device = -1; });
  expect_refused("shards[0].blocks: 4 given", [](Plan& p) { p.shards[0].blocks.resize(4, p.shards[0].blocks[0]); });
  expect_refused("shards[0].blocks[0].inputs: [5, 3) ends before it begins", [](Plan& p) { p.shards[0].blocks[0].inputs = {5, 3}; });
  expect_refused("shards[0].blocks[0].outputs: [3, 3) must not be empty", [](Plan& p) { p.shards[0].blocks[0].outputs = {3, 3}; });
  expect_refused("shards[0].blocks[0].inputs.begin: -1 must not be negative", [](Plan& p) { p.shards[0].blocks[0].inputs.begin = -1; });
  expect_refused("shards[0].blocks[0].inputs.end: 4294967296 must be at most 2147483647",
                 [](Plan& p) { p.shards[0].blocks[0].inputs.end = int64_t{1} << 32; });
  expect_refused("shards[0].phases[1].phase: FP is given twice", [](Plan& p) { p.shards[0].phases.push_back(p.shards[0].phases[0]); });
  expect_refused("shards[0].resources[0].amount: -1 must not be negative", [](Plan& p) { p.shards[0].resources = {{"dsp", -1}}; });
  expect_refused("groups[1].shards[0]: 3 is none of the 3 shards", [](Plan& p) { p.groups[1].shards[0] = 3; });
  expect_refused("homes[0].user: 2 is none of the 2 devices", [](Plan& p) { p.homes[0].user = 2; });
  expect_refused("homes[0].count: 0 must be positive", [](Plan& p) { p.homes[0].count = 0; });
  expect_refused("flows[0].link: 1 is none of the 1 links", [](Plan& p) { p.flows[0].link = 1; });
  expect_refused("flows[0].producer_shard: 3 is none of the 3 shards", [](Plan& p) { p.flows[0].producer_shard = 3; });
  expect_refused("flows[0].consumer_shard: -2 must be at least -1", [](Plan& p) { p.flows[0].consumer_shard = -2; });
  expect_refused("flows[0].channels: [2, 1) ends before it begins", [](Plan& p) { p.flows[0].channels = {2, 1}; });
  expect_refused("flows[0]: 6.04e+23 bits per mini-batch, with those before it, are more than can be counted", [](Plan& p) {
    p.mini_batch = p.micro_batch = 1 << 24;
    p.flows[0].elements_per_sample = int64_t{1} << 50;
  });
  expect_refused("model.layers[1].conv2d.out_channels: 0 must be positive", [](Plan& p) { p.model.layers[1].operation = Conv2d{}; });
  expect_refused("optimality_gap: nan must be a finite number", [](Plan& p) { p.optimality_gap = std::nan(""); });
}

TEST(PlanDocument, NeedsItsParts) {
  const auto without = [](const std::string& line) {
    std::string text = text_of(small_plan());
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    text.erase(at, line.size());
    parse_plan(text, "p");
  };
  expect_error(ErrorCode::kMalformed, "p: alignment is missing", [&] { without("alignment: FLUSH\n"); });
  expect_error(ErrorCode::kMalformed, "p: mini_batch is missing", [&] { without("mini_batch: 8\n"); });
  expect_error(ErrorCode::kMalformed, "p: homes[0]: user is missing", [&] { without(" user: 0"); });
  expect_error(ErrorCode::kMalformed, "p: model is missing", [] { parse_plan("cluster { repeat { device: \"cpu\" } }", "p"); });
}

}  // namespace
}  // namespace millrace
