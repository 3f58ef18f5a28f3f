// What crosses a link, against numbers derived by hand: each expectation carries its formula. I and O are the elements
// of a layer's input and of its raw sum, f the share of channels on the upstream side of a cut inside the layer.
#include "core/plan/flows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/zoo.h"
#include "core/plan/flow_load.h"
#include "core/plan/validate.h"
#include "tests/core/plan/small_plans.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing_support::group_of;
using testing_support::plan_of;
using testing_support::residual_model;
using testing_support::small_model;

// "activation b [1, 4) 48": one line per flow of the link in this direction, in the plan's order.
std::vector<std::string> lines(const Plan& plan, int64_t link, Direction direction) {
  std::vector<std::string> found;
  for (const Flow& flow : plan.flows)
    if (flow.link == link && flow.direction == direction)
      found.push_back(fmt::format("{} {} {} {}", name_of(flow.stream), flow.tensor, text_of(flow.channels),
                                  flow.elements_per_pass > 0 ? fmt::format("{} x {}", flow.elements_per_pass, flow.passes_per_mini_batch)
                                                             : std::to_string(flow.elements_per_sample)));
  return found;
}

int64_t elements_per_sample(const Plan& plan, int64_t link, Direction direction) {
  const LinkLoad load = load_of(plan, link, direction);
  EXPECT_EQ(load.elements_per_mini_batch % plan.mini_batch, 0);
  EXPECT_EQ(load.bits_per_mini_batch, load.elements_per_mini_batch * bits_of(plan.arithmetic.wire));
  return load.elements_per_mini_batch / plan.mini_batch;
}

struct Derived {
  std::string formula;
  int64_t elements;
};
void expect_traffic(const Plan& plan, const Derived& forward, const Derived& backward) {
  EXPECT_NO_THROW(validate(plan, Graph(plan.model), "plan"));
  EXPECT_EQ(elements_per_sample(plan, 0, Direction::kForward), forward.elements) << forward.formula;
  EXPECT_EQ(elements_per_sample(plan, 0, Direction::kBackward), backward.elements) << backward.formula;
}

Plan zoo_plan(const std::string& model, const std::string& layer, int64_t channel, Split split) {
  const Graph graph(zoo_model(model));
  return plan_of(graph, {{group_of(graph, layer), channel, 0}}, split);
}

TEST(Flows, CutInsideAnIcpLayerPassesTheRestOfTheInputAndThePartialSums) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{group_of(graph, "b"), 1, 0}});
  expect_traffic(plan, {"(1-f) I + O = 3/4 * 4*4*4 + 6*4*4", 48 + 96}, {"O + (1-f) I", 96 + 48});
  EXPECT_THAT(lines(plan, 0, Direction::kForward), ElementsAre("activation a.pool [1, 4) 48", "partial b:sum [0, 6) 96"));
  // The sum's error is that of the unpooled output: pooling is undone on the group's last device.
  EXPECT_THAT(lines(plan, 0, Direction::kBackward), ElementsAre("error a.pool [1, 4) 48", "error b:sum [0, 6) 96"));
}

TEST(Flows, CutInsideABoundaryChannelLeavesThatChannelOnBothSides) {
  const Graph graph(small_model());
  // Device 0: channel 0 for all outputs and channel 1 for outputs 0 and 1. Device 1 needs channel 1 for the others.
  expect_traffic(plan_of(graph, {{group_of(graph, "b"), 1, 2}}), {"3 of 4 channels of I, O", 48 + 96}, {"O, 3 of 4 channels", 96 + 48});
  // Device 0 has channel 0 for outputs 0 and 1 alone: only these have a partial sum.
  const Plan early = plan_of(graph, {{group_of(graph, "b"), 0, 2}});
  expect_traffic(early, {"I + 2 of 6 outputs", 64 + 32}, {"2 of 6 outputs + I", 32 + 64});
  EXPECT_THAT(lines(early, 0, Direction::kForward), ElementsAre("activation a.pool [0, 4) 64", "partial b:sum [0, 2) 32"));
}

TEST(Flows, CutInsideTheFirstLayerByOutputsSendsNoErrorOfTheImage) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{group_of(graph, "a"), 1, 0}}, Split::kOutputChannels);
  expect_traffic(plan, {"I + f O = 3*8*8 + 1/4 * 4*8*8", 192 + 64}, {"f O", 64});
  EXPECT_THAT(lines(plan, 0, Direction::kBackward), ElementsAre("error a:sum [0, 1) 64"));
}

TEST(Flows, CutInsideALaterLayerByOutputsSendsTheInputsErrorToo) {
  const Graph graph(small_model());
  expect_traffic(plan_of(graph, {{group_of(graph, "b"), 2, 0}}, Split::kOutputChannels), {"I + f O = 64 + 1/3 * 96", 64 + 32},
                 {"f O + I", 32 + 64});
}

TEST(Flows, CutInsideTheFirstLayerByInputsKeepsItsShareOfTheImage) {
  const Graph graph(small_model());
  expect_traffic(plan_of(graph, {{group_of(graph, "a"), 1, 0}}), {"(1-f) I + O = 2/3 * 192 + 256", 128 + 256}, {"O", 256});
}

TEST(Flows, CutBetweenLayersCarriesThePooledOutput) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{group_of(graph, "b"), 0, 0}});
  expect_traffic(plan, {"pooled a = 4*4*4", 64}, {"its error", 64});
  EXPECT_THAT(lines(plan, 0, Direction::kForward), ElementsAre("activation a.pool [0, 4) 64"));
}

TEST(Flows, ADeviceWithoutWorkPassesEverythingOn) {
  const Graph graph(small_model());
  const Plan plan = plan_of(graph, {{0, 0, 0}, {group_of(graph, "fc"), 0, 0}});
  EXPECT_THAT(lines(plan, 0, Direction::kForward), ElementsAre("activation input [0, 3) 192"));
  EXPECT_THAT(lines(plan, 0, Direction::kBackward), ElementsAre());
  EXPECT_THAT(lines(plan, 1, Direction::kForward), ElementsAre("activation flat [0, 24) 24"));
}

TEST(Flows, PartialSumsOfAGroupOfThreeGrowNoFurther) {
  const Graph graph(small_model());
  const int64_t b = group_of(graph, "b");
  const Plan plan = plan_of(graph, {{b, 1, 0}, {b, 3, 0}});
  EXPECT_THAT(lines(plan, 1, Direction::kForward), ElementsAre("activation a.pool [3, 4) 16", "partial b:sum [0, 6) 96"));
  // Appended output by output, they do.
  const Plan appended = plan_of(graph, {{b, 1, 0}, {b, 3, 0}}, Split::kOutputChannels);
  EXPECT_THAT(lines(appended, 0, Direction::kForward), ElementsAre("activation a.pool [0, 4) 64", "partial b:sum [0, 1) 16"));
  EXPECT_THAT(lines(appended, 1, Direction::kForward), ElementsAre("activation a.pool [0, 4) 64", "partial b:sum [0, 3) 48"));
}

TEST(Flows, AShortcutCrossesOnceThoughTwoLayersReadIt) {
  const Graph graph(residual_model());
  const Plan between = plan_of(graph, {{group_of(graph, "b"), 0, 0}});
  expect_traffic(between, {"a.relu once = 4*4*4", 64}, {"its summed error once", 64});
  // Inside b the shortcut still needs all of a.relu, so nothing of it is left behind.
  expect_traffic(plan_of(graph, {{group_of(graph, "b"), 3, 0}}), {"a.relu + O = 64 + 64", 128}, {"O + a.relu", 128});
}

TEST(Flows, BalancedParametersTravelToTheirUserAndGradientsBack) {
  const Graph graph(small_model());
  const int64_t b = group_of(graph, "b");
  // 30 of fc's 72 weights and 2 of its 3 biases live two devices upstream, 5 of a's 108 one device downstream.
  const std::vector<ParameterHome> homes = {{"fc", "weight", 10, 30, 0, 2}, {"fc", "bias", 1, 2, 0, 2}, {"a", "weight", 0, 5, 1, 0}};
  const Plan plan =
      plan_of(graph, {{b, 0, 0}, {group_of(graph, "fc"), 0, 0}}, Split::kInputChannels, homes, Alignment::kOneForwardOneBackward);
  EXPECT_NO_THROW(validate(plan, graph, "plan"));
  ASSERT_EQ(plan.windows, (std::vector<int64_t>{3, 2, 1}));
  // n = 4 micro-batches, window w: a pass serves (E_s, F_{s+w}), so w F's and w E's have one of their own: n + w passes.
  EXPECT_THAT(lines(plan, 0, Direction::kForward), ElementsAre("activation a.pool [0, 4) 64", "gradient a.weight [0, 5) 5 x 4",
                                                               "parameter fc.weight [10, 40) 30 x 5", "parameter fc.bias [1, 3) 2 x 5"));
  EXPECT_THAT(lines(plan, 0, Direction::kBackward), ElementsAre("error a.pool [0, 4) 64", "parameter a.weight [0, 5) 5 x 7",
                                                                "gradient fc.weight [10, 40) 30 x 4", "gradient fc.bias [1, 3) 2 x 4"));
  EXPECT_THAT(lines(plan, 1, Direction::kForward),
              ElementsAre("activation flat [0, 24) 24", "parameter fc.weight [10, 40) 30 x 5", "parameter fc.bias [1, 3) 2 x 5"));
  EXPECT_THAT(lines(plan, 1, Direction::kBackward),
              ElementsAre("error flat [0, 24) 24", "gradient fc.weight [10, 40) 30 x 4", "gradient fc.bias [1, 3) 2 x 4"));
  EXPECT_EQ(load_of(plan, 0, Direction::kForward).elements_per_mini_batch, 8 * 64 + 4 * 5 + 5 * (30 + 2))
      << "B pooled a + n gradients + passes x parameters";
  EXPECT_EQ(load_of(plan, 0, Direction::kBackward).elements_per_mini_batch, 8 * 64 + 7 * 5 + 4 * (30 + 2));
}

TEST(Flows, WireTypeSetsTheBits) {
  const Graph graph(small_model());
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 2);
  request.arithmetic.wire = ElementType::kFixed16;
  const std::vector<Cut> cuts = {{group_of(graph, "b"), 0, 0}};
  const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, cuts, {}));
  EXPECT_EQ(load_of(plan, 0, Direction::kForward).bits_per_mini_batch, 64 * 16);
}

TEST(FlowsOfAlexnet, AreExact) {
  expect_traffic(zoo_plan("alexnet", "conv1", 24, Split::kOutputChannels), {"I + f O = 3*227*227 + 24*55*55", 154587 + 72600},
                 {"f O", 72600});
  expect_traffic(zoo_plan("alexnet", "conv2", 32, Split::kInputChannels), {"(1-f) I + O = 64*27*27 + 256*27*27", 46656 + 186624},
                 {"O + (1-f) I", 186624 + 46656});
  expect_traffic(zoo_plan("alexnet", "conv3", 0, Split::kInputChannels), {"pool2 = 256*13*13", 43264}, {"its error", 43264});
  expect_traffic(zoo_plan("alexnet", "fc6", 0, Split::kInputChannels), {"pool5, flattened = 256*6*6", 9216}, {"its error", 9216});
  expect_traffic(zoo_plan("alexnet", "fc7", 1024, Split::kOutputChannels), {"I + f O = 4096 + 1024", 5120}, {"f O + I", 5120});
}

TEST(FlowsOfVgg16, AreExact) {
  expect_traffic(zoo_plan("vgg16", "conv1_2", 16, Split::kInputChannels), {"(1-f) I + O = 48*224*224 + 64*224*224", 2408448 + 3211264},
                 {"O + (1-f) I", 3211264 + 2408448});
  expect_traffic(zoo_plan("vgg16", "conv2_1", 0, Split::kInputChannels), {"pool1 = 64*112*112", 802816}, {"its error", 802816});
  expect_traffic(zoo_plan("vgg16", "fc6", 1000, Split::kInputChannels), {"(1-f) I + O = 25088 - 1000 + 4096", 28184},
                 {"O + (1-f) I", 28184});
}

}  // namespace
}  // namespace millrace
