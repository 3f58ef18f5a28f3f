// Recurrent layers divided by kind of product: what crosses links, counted by hand, and what of a plan is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "core/plan/validate.h"
#include "tests/core/dataflow/plans_by_kind.h"

namespace millrace::by_kind {
namespace {

using testing_support::shard_on;

// By hand: LSTM of 3 cells over 5 steps, 4 inputs; bidirectional, x W on two devices by its sums.
TEST(DividedByKind, WhatCrossesLinks) {
  ModelBuilder net("two", {4, 5, 1});
  net.dense("in", 4);
  net.layer("rnn", Recurrent{.hidden = 3, .bidirectional = true});
  net.dense("fc", 2);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const Plan plan = assemble_plan(graph, {.cluster = uniform_cluster("cpu", 3), .mini_batch = 2},
                                  {shard_on(0, "in", {{{0, 4}, {0, 4}}}), shard_on(0, "rnn", {{{0, 4}, {0, 10}}}),
                                   shard_on(1, "rnn", {{{0, 4}, {10, 24}}}), shard_on(2, "rnn"), shard_on(2, "fc", {{{0, 6}, {0, 2}}})});
  EXPECT_EQ(plan.groups[1].split, Split::kOutputChannels);
  struct Expected {
    int64_t link;
    Direction direction;
    Stream stream;
    std::string tensor;
    int64_t elements;
  };
  const std::vector<Expected> expected = {
      {0, Direction::kForward, Stream::kActivation, "in", 20},    {0, Direction::kForward, Stream::kPartial, "rnn:sum", 50},
      {0, Direction::kBackward, Stream::kError, "in", 20},        {0, Direction::kBackward, Stream::kError, "rnn:sum", 50},
      {1, Direction::kForward, Stream::kPartial, "rnn:sum", 120}, {1, Direction::kBackward, Stream::kError, "rnn:sum", 120},
  };
  ASSERT_EQ(plan.flows.size(), expected.size());
  for (size_t f = 0; f < expected.size(); ++f) {
    EXPECT_EQ(plan.flows[f].link, expected[f].link) << f;
    EXPECT_EQ(plan.flows[f].direction, expected[f].direction) << f;
    EXPECT_EQ(plan.flows[f].stream, expected[f].stream) << f;
    EXPECT_EQ(plan.flows[f].tensor, expected[f].tensor) << f;
    EXPECT_EQ(plan.flows[f].elements_per_sample, expected[f].elements) << f;
  }
  EXPECT_EQ(plan.flows[0].consumer_shard, 2);  // not the steps: they read sums
  // Rows 0-9 of the first direction's W here, the rest and the second direction's there; everything else with the steps.
  struct Home {
    std::string tensor;
    int64_t count, user;
  };
  std::vector<Home> homes;
  for (const ParameterHome& home : plan.homes)
    if (home.layer == "rnn") homes.push_back({home.tensor, home.count, home.user});
  const std::vector<Home> wanted = {{"weight_ih", 40, 0},         {"weight_ih", 8, 1},        {"weight_hh", 36, 2},
                                    {"bias_ih", 12, 2},           {"bias_hh", 12, 2},         {"weight_ih_reverse", 48, 1},
                                    {"weight_hh_reverse", 36, 2}, {"bias_ih_reverse", 12, 2}, {"bias_hh_reverse", 12, 2}};
  ASSERT_EQ(homes.size(), wanted.size());
  for (size_t h = 0; h < wanted.size(); ++h) {
    EXPECT_EQ(homes[h].tensor, wanted[h].tensor);
    EXPECT_EQ(homes[h].count, wanted[h].count) << wanted[h].tensor;
    EXPECT_EQ(homes[h].user, wanted[h].user) << wanted[h].tensor;
  }
}

// By hand: GRU of 3 cells over 5 steps behind 4 inputs, and a projected LSTM; the steps' parameters on the device before.
TEST(DividedByKind, WhatCrossesWhereStepsLoadTheirParameters) {
  ModelBuilder net("two", {4, 5, 1});
  net.dense("in", 4);
  net.layer("gru", Recurrent{.cell = CellKind::kGru, .hidden = 3, .reset_after = true});
  net.layer("lstm", Recurrent{.hidden = 3, .projection = 2});
  net.dense("fc", 2);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  PlanRequest request{.cluster = uniform_cluster("cpu", 4), .mini_batch = 6, .micro_batch = 2};
  for (const auto& [layer, device] : {std::pair{"gru", int64_t{1}}, std::pair{"lstm", int64_t{3}}})
    for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of(layer)), device)) request.remote_homes.push_back(home);
  const Plan plan = assemble_plan(graph, request,
                                  {shard_on(0, "in", {{{0, 4}, {0, 4}}}), shard_on(0, "gru", {{{0, 4}, {0, 9}}}), shard_on(1, "gru"),
                                   shard_on(2, "lstm", {{{0, 3}, {0, 12}}}), shard_on(3, "lstm"), shard_on(3, "fc", {{{0, 2}, {0, 2}}})});
  validate(plan, graph, "plan");
  std::map<std::string, std::vector<int64_t>> seen;  // link, elements per sample, per pass, passes
  for (const Flow& flow : plan.flows)
    seen[fmt::format("{} {} {}", name_of(flow.stream), flow.tensor, name_of(flow.direction))] = {
        flow.link, flow.elements_per_sample, flow.elements_per_pass, flow.passes_per_mini_batch};
  using Figures = std::vector<int64_t>;
  EXPECT_EQ(seen.at("record gru:record backward"), (Figures{0, 5 * (3 + 3), 0, 0}));       // h and the candidate's error
  EXPECT_EQ(seen.at("record lstm:record backward"), (Figures{2, 5 * (2 + 3 + 2), 0, 0}));  // h, m, dh
  EXPECT_EQ(seen.at("parameter gru.weight_hh forward"), (Figures{0, 0, 27, 6}));           // for every F and every E of three
  EXPECT_EQ(seen.at("parameter gru.bias_hh forward"), (Figures{0, 0, 9, 6}));
  EXPECT_EQ(seen.at("parameter lstm.weight_hr forward"), (Figures{2, 0, 6, 6}));
  for (const auto& [name, figures] : seen) EXPECT_FALSE(name.starts_with("gradient")) << name;
  EXPECT_TRUE(loads_every_pass(plan, 1));
  EXPECT_FALSE(loads_every_pass(plan, 0));

  const auto refusal = [&](auto edit) {
    Plan edited = plan;
    edit(edited);
    try {
      validate(edited, graph, "plan");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal([](Plan& edited) {
                for (ParameterHome& home : edited.homes)
                  if (home.tensor == "bias_hh" && home.layer == "gru") home.home = 1;
              }),
              testing::HasSubstr("gru.bias_hh, which the steps on device 1 use"));
  EXPECT_THAT(refusal([](Plan& edited) { std::erase_if(edited.flows, [](const Flow& flow) { return flow.tensor == "gru:record"; }); }),
              testing::HasSubstr("record gru:record"));
}

// By hand: LSTM of 6 cells projected to 4 over 5 steps, both directions, three cells on each of two devices: cells and features divide
// into two parts and not into three.
TEST(DividedByKind, WhatCrossesWhereProjectedStepsAreShared) {
  ModelBuilder net("two", {3, 5, 1});
  net.layer("lstm", Recurrent{.hidden = 6, .projection = 4, .bidirectional = true});
  net.dense("fc", 2);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const std::vector<ChannelRange> units = {{0, 3}, {3, 6}};
  PlanRequest request{.cluster = uniform_cluster("cpu", 3), .mini_batch = 6, .micro_batch = 2};
  request.remote_homes = homes_before_steps(graph.node(0), 1, units);
  std::vector<Shard> shards = {shard_on(0, "lstm", {{{0, 3}, {0, 48}}}), shard_on(1, "lstm"), shard_on(2, "lstm"),
                               shard_on(2, "fc", {{{0, 8}, {0, 2}}})};
  shards[1].units = units[0];
  shards[2].units = units[1];
  const Plan plan = assemble_plan(graph, request, shards);
  validate(plan, graph, "plan");
  std::map<std::string, std::pair<ChannelRange, int64_t>> rows;
  std::vector<ChannelRange> errors;
  std::map<std::string, int64_t> passes;
  for (const Flow& flow : plan.flows) {
    if (flow.stream == Stream::kState)
      rows[fmt::format("{} {}", flow.tensor, name_of(flow.direction))] = {flow.channels, flow.elements_per_sample};
    if (flow.link == 1 && flow.tensor == "lstm" && flow.direction == Direction::kBackward) errors.push_back(flow.channels);
    if (flow.link == 1 && flow.stream == Stream::kParameter) passes[flow.tensor] = flow.elements_per_pass;
  }
  using Row = std::pair<ChannelRange, int64_t>;
  const std::map<std::string, Row> expected = {{"lstm:m forward", {{0, 3}, 5 * 2 * 3}},      {"lstm:m backward", {{3, 6}, 5 * 2 * 3}},
                                               {"lstm:h forward", {{0, 2}, 5 * 2 * 2}},      {"lstm:h backward", {{2, 4}, 5 * 2 * 2}},
                                               {"lstm:dh forward", {{0, 2}, 5 * 2 * 2}},     {"lstm:dh backward", {{2, 4}, 5 * 2 * 2}},
                                               {"lstm:delta forward", {{0, 3}, 5 * 2 * 12}}, {"lstm:delta backward", {{3, 6}, 5 * 2 * 12}}};
  EXPECT_EQ(rows, expected);
  EXPECT_EQ(errors, (std::vector<ChannelRange>{{0, 2}, {4, 6}}));  // of outputs, by direction
  EXPECT_EQ(passes.at("lstm.weight_hh"), 4 * 3 * 4);
  EXPECT_EQ(passes.at("lstm.weight_hr_reverse"), 2 * 6);

  shards[1].units.end = shards[2].units.begin = 4;
  request.remote_homes = homes_before_steps(graph.node(0), 1, std::vector<ChannelRange>{{0, 4}, {4, 6}});
  try {
    validate(assemble_plan(graph, request, shards), graph, "plan");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMalformed);
    EXPECT_THAT(error.what(), testing::HasSubstr("come in multiples of 3"));
  }
}

}  // namespace
}  // namespace millrace::by_kind
