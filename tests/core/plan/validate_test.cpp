// What makes a plan mean something: every rule broken once in a plan that is good otherwise, random plans that always
// hold and never survive an edit, and plan files that were damaged.
#include "core/plan/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "core/base/files.h"
#include "tests/core/documents/expect_error.h"
#include "tests/core/plan/small_plans.h"
#include "tests/core/random_plans.h"

namespace millrace {
namespace {

using testing_support::group_of;
using testing_support::plan_of;
using testing_support::RandomPlans;
using testing_support::small_model;

// Shards: 0 a, 1 and 2 b (by input channels, inside channel 1), 3 fc. Groups: a, b, fc. Homes: a.weight, a.bias,
// b.weight twice, b.bias, fc.weight, fc.bias. One link.
Plan good_plan(Alignment alignment = Alignment::kFlush) {
  const Graph graph(small_model());
  return plan_of(graph, {{group_of(graph, "b"), 1, 2}}, Split::kInputChannels, {}, alignment);
}

void expect_refused(const std::string& words, const std::function<void(Plan&)>& change, Plan plan = good_plan()) {
  SCOPED_TRACE(words);
  const Graph graph(plan.model);
  ASSERT_NO_THROW(validate(plan, graph, "p.textproto"));
  change(plan);
  expect_error(ErrorCode::kMalformed, "p.textproto: " + words, [&] { validate(plan, graph, "p.textproto"); });
}

TEST(Validate, Batches) {
  expect_refused("micro_batch: 0 must be positive", [](Plan& p) { p.micro_batch = 0; });
  expect_refused("mini_batch: 8 is not a multiple of micro_batch 3", [](Plan& p) { p.micro_batch = 3; });
  expect_refused("mini_batch: 1 is not a multiple of micro_batch 2", [](Plan& p) { p.mini_batch = 1; });
}

TEST(Validate, Windows) {
  expect_refused("windows: 3 entries for 2 devices", [](Plan& p) { p.windows.push_back(1); });
  expect_refused("windows[1]: 0 must be at least 1", [](Plan& p) { p.windows[1] = 0; });
  expect_refused("windows[1]: 5 is more than the 4 of the device before", [](Plan& p) { p.windows = {4, 5}; });
  expect_refused("windows[1]: 3, and under flush all 4 micro-batches of a mini-batch are in flight", [](Plan& p) { p.windows = {4, 3}; });
  expect_refused(
      "windows[0]: 6 exceeds the 4 micro-batches of a mini-batch by more than one, which alignment fpdeep does not allow",
      [](Plan& p) { p.windows[0] = 6; }, good_plan(Alignment::kFpdeep));
}

TEST(Validate, DevicesAndLinks) {
  expect_refused("cluster: no devices", [](Plan& p) { p.cluster.devices.clear(); });
  expect_refused("links: 0 entries for 2 devices", [](Plan& p) { p.links.clear(); });
  expect_refused("links[0]: joins 0 and 2, expected 0 and 1", [](Plan& p) { p.links[0].to = 2; });
  expect_refused("links[0].forward_bits_per_second: 0 must be positive", [](Plan& p) { p.links[0].forward_bits_per_second = 0; });
  expect_refused("links[0].backward_bits_per_second: -1 must be positive", [](Plan& p) { p.links[0].backward_bits_per_second = -1; });
  expect_refused("links[0].latency_picoseconds: -2 must not be negative", [](Plan& p) { p.links[0].latency_picoseconds = -2; });
}

TEST(Validate, Groups) {
  expect_refused("the plan has 2 groups, the model 3", [](Plan& p) { p.groups.pop_back(); });
  expect_refused(R"(groups[1].layer is "fc", the model's order asks for "b")", [](Plan& p) { p.groups[1].layer = "fc"; });
  expect_refused(R"(groups[1] (layer "b") has no shard)", [](Plan& p) { p.groups[1].shards.clear(); });
  expect_refused(R"(groups[1] (layer "b") names shard 4, the plan has 4)", [](Plan& p) { p.groups[1].shards[0] = 4; });
  expect_refused(R"(groups[1] (layer "b") names shard 3, which belongs to layer "fc")", [](Plan& p) { p.groups[1].shards[0] = 3; });
  expect_refused(R"(groups[1].after (layer "b") does not list the layers that follow it)", [](Plan& p) { p.groups[1].after.pop_back(); });
  expect_refused(R"(groups[1].split (layer "b"): OCP, but its shards divide it by ICP)",
                 [](Plan& p) { p.groups[1].split = Split::kOutputChannels; });
  expect_refused(R"(groups[0].split (layer "a"): ICP, but its shards divide it by whole)",
                 [](Plan& p) { p.groups[0].split = Split::kInputChannels; });
}

TEST(Validate, ShardsInTheRing) {
  expect_refused("shards[3].device: 2 is not one of 2 devices", [](Plan& p) { p.shards[3].device = 2; });
  expect_refused("shards[1].device: -1 is not one of 2 devices", [](Plan& p) { p.shards[1].device = -1; });
  expect_refused(R"(shards[2] (layer "b") on device 0 breaks the ring's order after device 0)", [](Plan& p) { p.shards[2].device = 0; });
  expect_refused(R"(shards[3] (layer "fc") on device 0 breaks the ring's order after device 1)", [](Plan& p) { p.shards[3].device = 0; });
  expect_refused(R"(shards[4] (layer "fc") belongs to 0 groups, expected one)", [](Plan& p) { p.shards.push_back(p.shards[3]); });
  expect_refused(R"(shards[2] (layer "b") on device 1 breaks the ring's order after device 1)",
                 [](Plan& p) { p.groups[1].shards.push_back(2); });
}

TEST(Validate, Blocks) {
  expect_refused(R"(shards[2] (layer "b"): 0 blocks, expected one to three)", [](Plan& p) { p.shards[2].blocks.clear(); });
  expect_refused(R"(shards[2] (layer "b"): 4 blocks, expected one to three)",
                 [](Plan& p) { p.shards[2].blocks.resize(4, p.shards[2].blocks[0]); });
  expect_refused(R"(shards[2] (layer "b"): inputs [0, 2) start before those of the shard upstream)", [](Plan& p) {
    p.shards[1].blocks = {{{2, 4}, {0, 6}}};
    p.shards[2].blocks = {{{0, 2}, {0, 6}}};
  });
  expect_refused(R"(shards[0] (layer "a"): block [0, 3) x [0, 5) is empty or leaves the layer's 3 x 4 channels)",
                 [](Plan& p) { p.shards[0].blocks[0].outputs.end = 5; });
  expect_refused(R"(shards[0] (layer "a"): block [-1, 3) x [0, 4) is empty or leaves)",
                 [](Plan& p) { p.shards[0].blocks[0].inputs.begin = -1; });
  expect_refused(R"(shards[0] (layer "a"): block [0, 3) x [2, 2) is empty or leaves)", [](Plan& p) {
    p.shards[0].blocks[0].outputs = {2, 2};
  });
  expect_refused(R"(layer "b": blocks [1, 2) x [0, 2) and [1, 2) x [1, 6) overlap)",
                 [](Plan& p) { p.shards[2].blocks[0].outputs.begin = 1; });
  expect_refused(R"(layer "b": its shards cover 23 of 24 input-output channel pairs)",
                 [](Plan& p) { p.shards[2].blocks[0].outputs.begin = 3; });
}

TEST(Validate, GroupedConvolutions) {
  ModelBuilder net("grouped", {4, 4, 4});
  net.grouped_conv("g", 6, {.kernel = 1}, 2);
  net.flatten("flat");
  net.dense("fc", 3);
  const Graph graph(net.finish());
  const Plan plan = plan_of(graph, {{0, 3, 0}});
  expect_refused(R"(shards[0] (layer "g"): block [0, 3) x [0, 3) does not cover whole groups of the grouped convolution)",
                 [](Plan& p) { p.shards[0].blocks[0].inputs.end = 3; }, plan);
  expect_refused(R"(shards[0] (layer "g"): block [0, 2) x [3, 6) does not cover whole groups)",
                 [](Plan& p) {
                   p.shards[0].blocks[0].outputs = {3, 6};
                   p.shards[1].blocks[0].outputs = {0, 3};
                 },
                 plan);
}

TEST(Validate, RecurrentLayersStayWholeOrAreDividedByKind) {
  const Layer cell{.name = "rnn", .operation = Recurrent{.hidden = 3}, .inputs = {"input"}};
  const Layer dense{.name = "fc", .operation = Dense{.out_features = 2}, .inputs = {"rnn"}};
  const Layer loss{.name = "loss", .operation = SoftmaxCrossEntropy{}, .inputs = {"fc"}};
  const Graph graph(Model{.name = "rnn", .input_kind = InputKind::kFeatures, .input = {4, 5, 1}, .layers = {cell, dense, loss}});
  EXPECT_NO_THROW(validate(plan_of(graph, {{1, 0, 0}}), graph, "plan"));
  expect_error(
      ErrorCode::kMalformed,
      R"(shards[1] (layer "rnn"): the last device of a divided recurrent layer makes its steps and has no blocks, the plan gives it 1)",
      [&] {
        validate(plan_of(graph, {{0, 2, 0}}), graph, "plan");
      });
  // x W on one device, the steps and the rest on another.
  const auto shard = [](int64_t device, const std::string& layer, const std::vector<Block>& blocks) {
    Shard made;
    made.device = device;
    made.layer = layer;
    made.blocks = blocks;
    return made;
  };
  const Plan by_kind = assemble_plan(graph, {.cluster = uniform_cluster("cpu", 2), .mini_batch = 4},
                                     {shard(0, "rnn", {{{0, 4}, {0, 12}}}), shard(1, "rnn", {}), shard(1, "fc", {{{0, 3}, {0, 2}}})});
  EXPECT_NO_THROW(validate(by_kind, graph, "plan"));
  const auto expect_this = [&](const std::string& message, const std::function<void(Plan&)>& edit) {
    Plan plan = by_kind;
    edit(plan);
    expect_error(ErrorCode::kMalformed, message, [&] { validate(plan, graph, "plan"); });
  };
  expect_this(R"(shards[0] (layer "rnn"): 0 blocks, expected one to three)", [](Plan& p) { p.shards[0].blocks.clear(); });
  expect_this(R"(layer "rnn": its shards cover 44 of 48 input-output channel pairs)",
              [](Plan& p) { p.shards[0].blocks[0].outputs.end = 11; });
  expect_this(R"(groups[0].split (layer "rnn"): ICP, but its shards divide it by whole)",
              [](Plan& p) { p.groups[0].split = Split::kInputChannels; });
  expect_this("homes: rnn.weight_ih used by device 0 covers 47 of 48 elements", [](Plan& p) { --p.homes[0].count; });
  expect_this("homes: rnn.weight_hh used by device 1 has no home", [](Plan& p) { p.homes[1].user = 0; });
  expect_this(
      "flows[0]: link 0 forward partial rnn:sum [0, 6) (60 per sample, 0 per pass) should be "
      "link 0 forward partial rnn:sum [0, 12) (60 per sample, 0 per pass)",
      [](Plan& p) { p.flows[0].channels.end = 6; });
}

TEST(Validate, Homes) {
  expect_refused("homes[0].home: 2 is not one of 2 devices", [](Plan& p) { p.homes[0].home = 2; });
  expect_refused("homes[0]: [0, +0) is not a slice", [](Plan& p) { p.homes[0].count = 0; });
  expect_refused("homes[0]: [-1, +108) is not a slice", [](Plan& p) { p.homes[0].offset = -1; });
  expect_refused(R"(homes[0].layer: "z" is not a layer of the model)", [](Plan& p) { p.homes[0].layer = "z"; });
  expect_refused("homes: a.bias used by device 0 has no home", [](Plan& p) { p.homes.erase(p.homes.begin() + 1); });
  expect_refused("homes: a.weight used by device 0: slice at 1 leaves a gap or overlap at 0", [](Plan& p) { p.homes[0].offset = 1; });
  expect_refused("homes: a.weight used by device 0 covers 107 of 108 elements", [](Plan& p) { p.homes[0].count = 107; });
  expect_refused("homes: b.bias names user 0, which does not use it", [](Plan& p) { p.homes.push_back({"b", "bias", 0, 6, 0, 0}); });
  expect_refused("homes: a.scale names user 0, which does not use it", [](Plan& p) { p.homes.push_back({"a", "scale", 0, 6, 0, 0}); });
}

TEST(Validate, Flows) {
  expect_refused("flows: link 0 backward error b:sum [0, 6) (96 per sample, 0 per pass) is missing", [](Plan& p) { p.flows.pop_back(); });
  expect_refused("flows[4]: link 0 backward error b:sum [0, 6) (96 per sample, 0 per pass) follows from nothing in the plan",
                 [](Plan& p) { p.flows.push_back(p.flows.back()); });
  expect_refused(
      "flows[0]: link 0 forward activation a.pool [0, 4) (64 per sample, 0 per pass) should be "
      "link 0 forward activation a.pool [1, 4) (48 per sample, 0 per pass)",
      [](Plan& p) {
        p.flows[0].channels.begin = 0;
        p.flows[0].elements_per_sample = 64;
      });
}

TEST(Validate, Digests) {
  expect_refused("cluster_digest: ", [](Plan& p) { p.cluster.devices[0].host = "elsewhere"; });
  expect_refused("model_digest: ", [](Plan& p) { p.model.name = "another"; });
}

// ---- properties ----------------------------------------------------------------------------------------------------

struct RandomCase {
  Graph graph;
  Plan plan;
};
RandomCase random_case(uint64_t seed) {
  constexpr Alignment kAlignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                       Alignment::kZeroBubble};
  RandomPlans random(seed);
  Graph graph(random.model());
  Plan plan = random.plan(graph, random.between(1, 6), kAlignments[seed % 5], random.between(1, 4));
  return {std::move(graph), std::move(plan)};
}

TEST(ValidateProperties, AssembledPlansHoldAndComeBackFromText) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomCase c = random_case(seed);
    EXPECT_NO_THROW(validate(c.plan, c.graph, "plan"));
    EXPECT_EQ(parse_plan(text_of(c.plan), "plan"), c.plan);
  }
}

TEST(ValidateProperties, NoEditOfAFlowHomeOrShardSurvives) {
  int64_t edits = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const RandomCase c = random_case(seed);
    const auto refuses = [&](const std::string& what, const std::function<void(Plan&)>& change) {
      Plan plan = c.plan;
      change(plan);
      EXPECT_THROW(validate(plan, c.graph, "plan"), Error) << what;
      ++edits;
    };
    for (size_t i = 0; i < c.plan.flows.size(); ++i) {
      refuses("flow gone", [i](Plan& p) { p.flows.erase(p.flows.begin() + static_cast<ptrdiff_t>(i)); });
      refuses("flow twice", [i](Plan& p) { p.flows.insert(p.flows.begin() + static_cast<ptrdiff_t>(i), p.flows[i]); });
      refuses("link", [i](Plan& p) { ++p.flows[i].link; });
      refuses("direction", [i](Plan& p) {
        p.flows[i].direction = p.flows[i].direction == Direction::kForward ? Direction::kBackward : Direction::kForward;
      });
      refuses("stream", [i](Plan& p) { p.flows[i].stream = Stream::kControl; });
      refuses("tensor", [i](Plan& p) { p.flows[i].tensor += "x"; });
      refuses("channels", [i](Plan& p) { ++p.flows[i].channels.end; });
      refuses("producer", [i](Plan& p) { ++p.flows[i].producer_shard; });
      refuses("consumer", [i](Plan& p) { --p.flows[i].consumer_shard; });
      refuses("elements", [i](Plan& p) { ++p.flows[i].elements_per_sample; });
      refuses("elements per pass", [i](Plan& p) { ++p.flows[i].elements_per_pass; });
      refuses("passes", [i](Plan& p) { ++p.flows[i].passes_per_mini_batch; });
      refuses("wire", [i](Plan& p) { p.flows[i].wire = ElementType::kBfloat16; });
    }
    for (size_t i = 0; i < c.plan.homes.size(); ++i) {
      refuses("home gone", [i](Plan& p) { p.homes.erase(p.homes.begin() + static_cast<ptrdiff_t>(i)); });
      refuses("home twice", [i](Plan& p) { p.homes.push_back(p.homes[i]); });
      refuses("offset", [i](Plan& p) { ++p.homes[i].offset; });
      refuses("count", [i](Plan& p) { --p.homes[i].count; });
      refuses("home", [i](Plan& p) { ++p.homes[i].home; });
      refuses("home before", [i](Plan& p) { --p.homes[i].home; });
      refuses("user", [i](Plan& p) { ++p.homes[i].user; });
      refuses("user before", [i](Plan& p) { --p.homes[i].user; });
      refuses("home tensor", [i](Plan& p) { p.homes[i].tensor += "x"; });
      refuses("home layer", [i](Plan& p) { p.homes[i].layer += "x"; });
    }
    for (size_t i = 0; i < c.plan.shards.size(); ++i) {
      refuses("shard gone", [i](Plan& p) { p.shards.erase(p.shards.begin() + static_cast<ptrdiff_t>(i)); });
      refuses("device", [i](Plan& p) { ++p.shards[i].device; });
      refuses("device before", [i](Plan& p) { --p.shards[i].device; });
      refuses("layer", [i](Plan& p) { p.shards[i].layer += "x"; });
      for (size_t b = 0; b < c.plan.shards[i].blocks.size(); ++b)
        for (const int64_t step : {-1, 1}) {
          refuses("inputs begin", [=](Plan& p) { p.shards[i].blocks[b].inputs.begin += step; });
          refuses("inputs end", [=](Plan& p) { p.shards[i].blocks[b].inputs.end += step; });
          refuses("outputs begin", [=](Plan& p) { p.shards[i].blocks[b].outputs.begin += step; });
          refuses("outputs end", [=](Plan& p) { p.shards[i].blocks[b].outputs.end += step; });
        }
    }
    // Windows are a choice; what no choice may do is vanish, or grow along the ring.
    for (size_t d = 0; d < c.plan.windows.size(); ++d) {
      refuses("window 0", [d](Plan& p) { p.windows[d] = 0; });
      if (d > 0) refuses("window grows", [d](Plan& p) { p.windows[d] = p.windows[d - 1] + 1; });
    }
    if (!drains(c.plan.alignment)) refuses("window too wide", [](Plan& p) { p.windows[0] = p.micro_batches() + 2; });
  }
  EXPECT_GT(edits, 5000);
}

// ---- files ---------------------------------------------------------------------------------------------------------

class PlanFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string("millrace-") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".textproto");
    plan_ = good_plan();
    save(plan_, path_);
    text_ = read_text(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void overwrite(const std::string& text) const { std::ofstream(path_, std::ios::trunc) << text; }

  std::filesystem::path path_;
  Plan plan_;
  std::string text_;
};

TEST_F(PlanFile, ComesBack) { EXPECT_EQ(load_plan(path_), plan_); }

TEST_F(PlanFile, CutShortAnywhereIsRefusedByName) {
  const size_t end = text_.rfind('}');  // behind it only the line's end is missing
  for (size_t length = 0; length <= end; length += 7) {
    overwrite(text_.substr(0, length));
    expect_error(ErrorCode::kMalformed, path_.string(), [&] { load_plan(path_); });
  }
  overwrite(text_.substr(0, end));
  expect_error(ErrorCode::kMalformed, path_.string(), [&] { load_plan(path_); });
}

TEST_F(PlanFile, OfANewerVersionSaysSo) {
  const std::string version = "version: 2";
  ASSERT_EQ(text_.find(version), 0u);
  overwrite("version: 3" + text_.substr(version.size()));
  expect_error(ErrorCode::kMalformed, path_.string() + ": written by a newer Millrace (version 3", [&] { load_plan(path_); });
}

TEST_F(PlanFile, ThatIsNotThereIsNamed) {
  std::filesystem::remove(path_);
  expect_error(ErrorCode::kNotFound, path_.string(), [&] { load_plan(path_); });
}

}  // namespace
}  // namespace millrace
