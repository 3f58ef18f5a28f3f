// Recurrent layers divided by kind of product, x W apart from the steps: executors are the interpreter to the bit, and the numbers are
// those of the undivided layer. What crosses links is held in crossing_by_kind_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/plan/flow_load.h"
#include "core/plan/parts.h"
#include "core/plan/recomputation.h"
#include "core/plan/time_chunking.h"
#include "core/plan/validate.h"
#include "core/reference/reference_device.h"
#include "core/train/initialize.h"
#include "tests/core/dataflow/plans_by_kind.h"
#include "tests/core/dataflow/ring_of_executors.h"

namespace millrace::by_kind {
namespace {

using testing_support::DrawnByKind;
using testing_support::RingOfExecutors;
using testing_support::shard_on;

constexpr int64_t kMiniBatches = 3;
constexpr double kRate = 0.05;

// Sequences of all lengths, 1 among them.
Interpreter::Source source_for(const Plan& plan, int64_t steps) {
  return [&plan, steps](int64_t s) {
    Samples samples;
    const Philox draw(31, 1);
    for (int64_t i = 0; i < plan.micro_batch; ++i) {
      const int64_t id = s * plan.micro_batch + i;
      samples.ids.push_back(id);
      samples.lengths.push_back(static_cast<int32_t>(1 + id % steps));
      for (int64_t t = 0; t < steps; ++t) {
        const auto token = static_cast<int32_t>(draw.below(static_cast<uint64_t>(id * steps + t), DrawnByKind::kVocabulary));
        samples.pixels.push_back(static_cast<double>(token));
        samples.labels.push_back(t < samples.lengths.back() ? (token + 1) % static_cast<int32_t>(DrawnByKind::kVocabulary) : kNoLabel);
      }
    }
    return samples;
  };
}

template <typename Visit>
void for_each_trained(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters)
      if (parameter.trained) visit(node, parameter);
}

std::unique_ptr<Interpreter> interpreted(const Plan& plan, const Graph& graph, ElementType type, int64_t steps) {
  InterpreterOptions options;
  options.type = type;
  options.seed = 5;
  options.learning_rate = [](int64_t) { return kRate; };
  auto interpreter = std::make_unique<Interpreter>(plan, options, source_for(plan, steps));
  for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
    std::vector<double> full(static_cast<size_t>(parameter.elements()));
    InitialValues(node.layer, parameter, fans_of(node.parameters.front()), 5).fill(std::span<double>(full));
    interpreter->set_parameter(node.layer.name, parameter.tensor, full);
  });
  interpreter->run(kMiniBatches);
  return interpreter;
}

std::unique_ptr<RingOfExecutors> trained(const Plan& plan, const Graph& graph, std::unique_ptr<Device> (*make)(), int64_t steps) {
  auto ring = std::make_unique<RingOfExecutors>(plan, graph, make);
  for (auto& segment : ring->segments) segment->initialize(5);
  ring->initialize_remote(5);
  ring->run(kMiniBatches, 5, kRate, source_for(plan, steps));
  EXPECT_EQ(ring->left(), 0) << "devices wait for each other";
  return ring;
}

Plan whole_plan(const Graph& graph, const Plan& like) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 1);
  request.alignment = like.alignment;
  request.mini_batch = like.mini_batch;
  request.micro_batch = like.micro_batch;
  request.optimizer = like.optimizer;
  return single_device_plan(graph, request);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(1.0, std::sqrt(norm));
}

constexpr Alignment kAlignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble};
constexpr Alignment kDrained[] = {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble};

// Every trained parameter, and how much every flow moved.
template <typename Ring, typename Interpreter>
void compare_bits(const Graph& graph, Ring& ring, Interpreter& interpreter) {
  for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
    ASSERT_EQ(ring.parameter(node.layer.name, parameter), interpreter.parameter(node.layer.name, parameter.tensor))
        << node.layer.name << "." << parameter.tensor;
  });
  ASSERT_EQ(ring.ports.moved, interpreter.moved());
}

// All but 60 with the parameters of steps on the device before, which makes their gradients of records: the interpreter makes them where
// the steps are.
TEST(DividedByKind, ExecutorsAreBitwiseTheInterpreter) {
  int64_t records = 0, compared = 0;
  for (uint32_t seed = 0; compared < 300; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kAlignments[seed % 4], compared >= 60);
    // More micro-batches under way than a carried state bears are refused.
    const auto keeps_state = [](const Node& node) { return traits_of(node.layer.operation).keeps_state; };
    if (!drains(plan.alignment) && plan.windows.front() > plan.micro_batches() && std::ranges::any_of(graph.nodes(), keeps_state)) continue;
    ++compared;
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(name_of(plan.alignment)) + " on " + std::to_string(plan.devices()));
    ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, draw.steps);
    const auto ring = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat32); }, draw.steps);
    ASSERT_NO_FATAL_FAILURE(compare_bits(graph, *ring, *interpreter));
    // What the plan says of every flow.
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      ASSERT_EQ(interpreter->moved()[f], elements_per_mini_batch(plan.flows[f], plan) * kMiniBatches) << f;
      records += plan.flows[f].stream == Stream::kRecord ? 1 : 0;
    }
  }
  EXPECT_GE(records, 240);
}

TEST(DividedByKind, NumbersAreThoseOfTheUndividedLayer) {
  double furthest = 0;
  for (uint32_t seed = 100; seed < 160; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kDrained[seed % 3]);
    const Plan whole = whole_plan(graph, plan);
    const auto divided = interpreted(plan, graph, ElementType::kFloat64, draw.steps);
    const auto expected = interpreted(whole, graph, ElementType::kFloat64, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      const std::vector<double> want = expected->parameter(node.layer.name, parameter.tensor);
      furthest = std::max(furthest, distance(divided->parameter(node.layer.name, parameter.tensor), want));
    });
    ASSERT_LT(furthest, 1e-10) << "seed " << seed;
  }
  RecordProperty("furthest", std::to_string(furthest));
}

// Executors in double precision, gradients made of records.
TEST(DividedByKind, GradientsOfRecordsAreThoseOfTheUndividedLayer) {
  for (uint32_t seed = 300; seed < 360; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kDrained[seed % 3], /*lends=*/true);
    const auto divided = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat64); }, draw.steps);
    const auto expected = interpreted(whole_plan(graph, plan), graph, ElementType::kFloat64, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_LT(distance(divided->parameter(node.layer.name, parameter), expected->parameter(node.layer.name, parameter.tensor)), 1e-10)
          << "seed " << seed << ", " << node.layer.name << "." << parameter.tensor;
    });
  }
}

int64_t projected_shared_layers(const Plan& plan, const Graph& graph) {
  return std::ranges::count_if(plan.groups, [&](const Group& group) {
    return shares_steps(plan, graph, group) && std::get<Recurrent>(graph.node(graph.index_of(group.layer)).layer.operation).projection > 0;
  });
}
int64_t shared_layers(const Plan& plan, const Graph& graph) {
  return std::ranges::count_if(plan.groups, [&](const Group& group) { return shares_steps(plan, graph, group); });
}
bool keeps_too_much_state(const Plan& plan, const Graph& graph) {
  const auto keeps_state = [](const Node& node) { return traits_of(node.layer.operation).keeps_state; };
  return !drains(plan.alignment) && plan.windows.front() > plan.micro_batches() && std::ranges::any_of(graph.nodes(), keeps_state);
}

// 300 rings. Up to three devices share the steps, cells divided unevenly: bits of the interpreter, which makes them at once, and counts of
// the plan.
TEST(DividedByKind, SharedStepsAreBitwiseTheInterpreters) {
  int64_t compared = 0, states = 0, projected = 0;
  std::map<size_t, int64_t> layers_on;  // by devices that make the steps
  for (uint32_t seed = 1000; compared < 300; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kAlignments[seed % 4], /*lends=*/seed % 2 == 0, /*shares=*/true);
    if (keeps_too_much_state(plan, graph)) continue;
    ++compared;
    projected += projected_shared_layers(plan, graph);
    for (const Group& group : plan.groups)
      if (divided_by_kind(graph, group)) ++layers_on[makers_of(plan, group) - first_steps_of(plan, group)];
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::string(name_of(plan.alignment)) + " on " + std::to_string(plan.devices()));
    ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, draw.steps);
    const auto ring = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat32); }, draw.steps);
    ASSERT_NO_FATAL_FAILURE(compare_bits(graph, *ring, *interpreter));
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      ASSERT_EQ(interpreter->moved()[f], elements_per_mini_batch(plan.flows[f], plan) * kMiniBatches) << f;
      states += plan.flows[f].stream == Stream::kState ? 1 : 0;
    }
  }
  EXPECT_GE(states, 240);
  EXPECT_GE(projected, 4);
  for (const size_t devices : {size_t{1}, size_t{2}, size_t{3}}) EXPECT_GE(layers_on[devices], 60) << devices;
}

TEST(DividedByKind, SharedStepsAreThoseOfTheUndividedLayer) {
  int64_t shared = 0, projected = 0;
  for (uint32_t seed = 2000; shared < 40 || projected < 4; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kDrained[seed % 3], /*lends=*/true, /*shares=*/true);
    if (shared_layers(plan, graph) == 0) continue;
    shared += shared_layers(plan, graph);
    projected += projected_shared_layers(plan, graph);
    const auto divided = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat64); }, draw.steps);
    const auto expected = interpreted(whole_plan(graph, plan), graph, ElementType::kFloat64, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_LT(distance(divided->parameter(node.layer.name, parameter), expected->parameter(node.layer.name, parameter.tensor)), 1e-10)
          << "seed " << seed << ", " << node.layer.name << "." << parameter.tensor;
    });
  }
}

// 120 rings with what follows a divided layer (residual adds, norms, activations) behind its steps, on a device that has nothing else of
// it: bits of the interpreter in single precision, the undivided layer's numbers in double, and counts of the plan.
TEST(DividedByKind, WhatFollowsTheStepsOnAnotherDevice) {
  int64_t apart = 0, shared = 0, lent = 0, chunked = 0;
  for (uint32_t seed = 9000, compared = 0; compared < 120; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    draw.draw_what_follows_apart();
    const bool double_precision = seed % 2 == 0;
    const Alignment alignment = double_precision ? kDrained[seed % 3] : kAlignments[seed % 4];
    Plan plan = draw.plan(graph, alignment, /*lends=*/seed % 3 != 0, /*shares=*/seed % 4 < 2);
    const int64_t here = std::ranges::count_if(plan.shards, &Shard::after);
    if (here == 0 || keeps_too_much_state(plan, graph)) continue;
    ++compared;
    if (draw.steps > 1 && seed % 5 < 2) plan.time_chunks = draw.from_to(2, draw.steps);
    apart += here;
    shared += shared_layers(plan, graph);
    chunked += plan.time_chunks > 1 ? 1 : 0;
    for (const Group& group : plan.groups) lent += gradients_of_steps_at(plan, graph, group) >= 0 ? 1 : 0;
    SCOPED_TRACE(fmt::format("seed {}, {} on {}, {} chunks", seed, name_of(plan.alignment), plan.devices(), plan.time_chunks));
    ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
    const auto interpreter = interpreted(plan, graph, double_precision ? ElementType::kFloat64 : ElementType::kFloat32, draw.steps);
    for (size_t f = 0; f < plan.flows.size(); ++f)
      ASSERT_EQ(interpreter->moved()[f], elements_per_mini_batch(plan.flows[f], plan) * kMiniBatches) << f;
    if (!double_precision) {
      const auto ring = trained(
          plan, graph, [] { return make_reference_device(ElementType::kFloat32); }, draw.steps);
      ASSERT_NO_FATAL_FAILURE(compare_bits(graph, *ring, *interpreter));
      continue;
    }
    const auto expected = interpreted(whole_plan(graph, plan), graph, ElementType::kFloat64, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_LT(distance(interpreter->parameter(node.layer.name, parameter.tensor), expected->parameter(node.layer.name, parameter.tensor)),
                1e-10)
          << node.layer.name << "." << parameter.tensor;
    });
  }
  EXPECT_GE(apart, 120);
  EXPECT_GE(shared, 20);
  EXPECT_GE(lent, 60);
  EXPECT_GE(chunked, 20);
}

// Nothing else of the layer is there, and it is the last of a layer divided by kind.
TEST(DividedByKind, WhatFollowsIsBehindTheStepsAlone) {
  ModelBuilder net("small", {3, 4, 1});
  net.layer("rnn", Recurrent{.hidden = 4});
  net.layer("tanh", Activation{.kind = ActivationKind::kTanh});
  net.dense("fc", 2);
  Model model = net.finish();
  model.input_kind = InputKind::kFeatures;
  const Graph graph(model);
  const Block sums{{0, 3}, {0, 16}};
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", 4);
  request.mini_batch = request.micro_batch = 1;
  std::vector<Shard> shards = {shard_on(0, "rnn", {sums}), shard_on(1, "rnn"), shard_on(2, "rnn"), shard_on(3, "fc", {{{0, 4}, {0, 2}}})};
  shards[2].after = true;
  const Plan plan = assemble_plan(graph, request, shards);
  ASSERT_NO_THROW(validate(plan, graph, "plan"));
  // The output crosses as the steps made it, what follows behind that.
  std::vector<std::string> forward;
  for (const Flow& flow : plan.flows)
    if (flow.direction == Direction::kForward) forward.push_back(fmt::format("{} {}", flow.link, flow.tensor));
  EXPECT_EQ(forward, (std::vector<std::string>{"0 rnn:sum", "1 rnn", "2 tanh"}));

  for (const Flow& flow : plan.flows) {
    if (flow.tensor != "rnn") continue;
    const bool on = flow.direction == Direction::kForward;
    EXPECT_EQ(on ? flow.producer_shard : flow.consumer_shard, 1);
    EXPECT_EQ(on ? flow.consumer_shard : flow.producer_shard, 2);
  }
  // Devices that share the steps take every micro-batch together, and the one behind them with it need not.
  PlanRequest two = request;
  two.cluster = uniform_cluster("cpu", 5);
  two.mini_batch = 8;
  two.alignment = Alignment::kFpdeep;
  std::vector<Shard> sharing = {shard_on(0, "rnn", {sums}), shard_on(1, "rnn"), shard_on(2, "rnn"), shard_on(3, "rnn"),
                                shard_on(4, "fc", {{{0, 4}, {0, 2}}})};
  sharing[1].units = {0, 1};
  sharing[2].units = {1, 4};
  sharing[3].after = true;
  two.remote_homes = homes_before_steps(graph.node(0), 1, std::vector<ChannelRange>{{0, 1}, {1, 4}});
  const Plan shared = assemble_plan(graph, two, sharing);
  ASSERT_NO_THROW(validate(shared, graph, "plan"));
  EXPECT_EQ(shared.windows[1], shared.windows[2]);
  EXPECT_GT(shared.windows[2], shared.windows[3]);

  // It goes on chunk by chunk, as the steps do, and is nothing that those are made again for.
  Plan chunked = plan;
  chunked.time_chunks = 2;
  const ChunkedLayers layers = chunked_layers(chunked, graph);
  for (const size_t device : {size_t{0}, size_t{1}, size_t{2}}) EXPECT_EQ(layers[device], std::set<std::string>{"rnn"}) << device;
  Plan again = plan;
  choose_recomputation(again, graph);
  EXPECT_GT(figures_of_recomputation(again, graph, 1).bytes_kept, 0);
  EXPECT_EQ(figures_of_recomputation(again, graph, 2).bytes_kept, 0);

  const auto refused = [&](const std::function<void(Plan&)>& edit) {
    Plan edited = plan;
    edit(edited);
    try {
      validate(edited, graph, "plan");
    } catch (const Error& error) {
      return error.code() == ErrorCode::kMalformed ? std::string(error.what()) : std::string("another code");
    }
    return std::string("nothing");
  };
  EXPECT_NE(refused([](Plan& edited) { edited.shards[1].after = true; }).find("shards[1].after"), std::string::npos);
  EXPECT_NE(refused([](Plan& edited) { edited.shards[3].after = true; }).find("shards[3].after"), std::string::npos);
  EXPECT_NE(refused([&](Plan& edited) { edited.shards[2].blocks = {sums}; }).find("it has what follows the layer alone"),
            std::string::npos);
  EXPECT_NE(refused([](Plan& edited) { edited.shards[2].units = {0, 4}; }).find("it has what follows the layer alone"), std::string::npos);
  EXPECT_NE(refused([](Plan& edited) { edited.shards[2].after = false; }).find("rnn"), std::string::npos);
}

// 120 rings on the CPU engine, which takes sequences in parts: chunks of every number up to that of the steps, beside layers divided,
// states carried over, cut ways back, lengths from 1 on, and residual adds around layers that take sequences whole. No bit is another,
// and what crosses is the plan's.
TEST(DividedByKind, ChunksOfTimeChangeNoBit) {
  const auto make = +[] { return make_cpu_device(); };
  int64_t compared = 0, streamed = 0;
  for (uint32_t seed = 4000; compared < 120; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan whole = draw.plan(graph, kAlignments[seed % 4], /*lends=*/seed % 3 != 0);
    if (draw.steps < 2 || keeps_too_much_state(whole, graph)) continue;
    ++compared;
    Plan plan = whole;
    plan.time_chunks = draw.from_to(2, draw.steps);
    SCOPED_TRACE(fmt::format("seed {}, {} of {} steps on {} devices, {} chunks", seed, name_of(plan.alignment), draw.steps, plan.devices(),
                             plan.time_chunks));
    ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
    const TimeChunking chunking(plan, graph);
    for (size_t f = 0; f < plan.flows.size(); ++f) streamed += chunking.flow(static_cast<int64_t>(f)) ? 1 : 0;
    const auto in_parts = trained(plan, graph, make, draw.steps), at_once = trained(whole, graph, make, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_EQ(in_parts->parameter(node.layer.name, parameter), at_once->parameter(node.layer.name, parameter))
          << node.layer.name << "." << parameter.tensor;
    });
    for (size_t f = 0; f < plan.flows.size(); ++f)
      ASSERT_EQ(in_parts->ports.moved[f], elements_per_mini_batch(plan.flows[f], plan) * kMiniBatches) << f;
  }
  EXPECT_GE(streamed, 500);
}

// 80 rings of reference devices, with shared steps and both directions among them: the interpreter's bits, which takes sequences whole, and
// in double precision the undivided layer's numbers. Sums, their errors and records cross chunk by chunk, and no count is another.
TEST(DividedByKind, ChunksOfTimeAreTheInterpretersBits) {
  int64_t compared = 0, records = 0, sums = 0;
  for (uint32_t seed = 5000; compared < 80; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan at_once = draw.plan(graph, kAlignments[seed % 4], /*lends=*/seed % 5 != 1, /*shares=*/seed % 3 == 0);
    if (draw.steps < 2 || keeps_too_much_state(at_once, graph)) continue;
    ++compared;
    Plan plan = at_once;
    plan.time_chunks = seed % 5 == 0 ? draw.steps : draw.from_to(2, draw.steps);
    SCOPED_TRACE(fmt::format("seed {}, {} of {} steps on {} devices, {} chunks", seed, name_of(plan.alignment), draw.steps, plan.devices(),
                             plan.time_chunks));
    ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
    const TimeChunking chunking(plan, graph);
    for (size_t f = 0; f < plan.flows.size(); ++f) {
      if (!chunking.flow(static_cast<int64_t>(f))) continue;
      records += plan.flows[f].stream == Stream::kRecord ? 1 : 0;
      sums += plan.flows[f].stream == Stream::kPartial ? 1 : 0;
    }
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, draw.steps);
    ASSERT_EQ(interpreter->moved(), interpreted(at_once, graph, ElementType::kFloat32, draw.steps)->moved());
    const auto ring = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat32); }, draw.steps);
    ASSERT_NO_FATAL_FAILURE(compare_bits(graph, *ring, *interpreter));
    if (!drains(plan.alignment)) continue;
    const auto exact = trained(
        plan, graph, [] { return make_reference_device(ElementType::kFloat64); }, draw.steps);
    const auto whole = interpreted(whole_plan(graph, plan), graph, ElementType::kFloat64, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_LT(distance(exact->parameter(node.layer.name, parameter), whole->parameter(node.layer.name, parameter.tensor)), 1e-10)
          << node.layer.name << "." << parameter.tensor;
    });
  }
  EXPECT_GE(sums, 60);
  EXPECT_GE(records, 20);
}

// Two layers, each over devices of unlike cells, the second added to the first; states carried over, cut way back, lengths from 1 on.
using Units = std::vector<ChannelRange>;
void compare_two_shared_layers(Recurrent first, Recurrent second, const Units& one, const Units& other, int64_t time_chunks) {
  constexpr int64_t kSteps = 5;
  first.truncation = 2;
  second.truncation = 3;
  const int64_t features = first.features(), behind = 2 + std::ssize(one), last = behind + std::ssize(other);
  for (const bool stateful : {false, true}) {
    ModelBuilder net("residual", {1, kSteps, 1});
    net.layer("embedding", Embedding{.vocabulary = DrawnByKind::kVocabulary, .dimension = 3});
    first.stateful = second.stateful = stateful;
    net.layer("first", first);
    net.layer("second", second);
    net.add("join", {"second", "first"});
    net.dense("fc", DrawnByKind::kVocabulary);
    Model model = net.finish();
    for (Layer& layer : model.layers) layer.initializer = Initializer::kTorchUniform;
    const Graph graph(model);
    const auto sums = [](const Recurrent& cell) { return gates_of(cell.cell) * cell.hidden; };
    std::vector<Shard> shards = {shard_on(0, "embedding", {{{0, 1}, {0, 3}}}), shard_on(0, "first", {{{0, 3}, {0, sums(first)}}})};
    const auto share = [&](const std::string& layer, int64_t device, const Units& units) {
      for (size_t i = 0; i < units.size(); ++i) {
        shards.push_back(shard_on(device + static_cast<int64_t>(i), layer));
        shards.back().units = units[i];
      }
    };
    share("first", 1, one);
    shards.push_back(shard_on(behind - 1, "second", {{{0, features}, {0, sums(second)}}}));
    share("second", behind, other);
    shards.push_back(shard_on(last, "fc", {{{0, features}, {0, DrawnByKind::kVocabulary}}}));
    for (const Alignment alignment : kAlignments) {
      SCOPED_TRACE(std::string(name_of(alignment)) + (stateful ? ", stateful" : ""));
      PlanRequest request;
      request.cluster = uniform_cluster("cpu", last + 1);
      request.alignment = alignment;
      request.time_chunks = time_chunks;
      request.micro_batch = 2;
      request.mini_batch = stateful && !drains(alignment) ? 24 : 6;  // no more under way than a carried state bears
      request.optimizer = {.kind = OptimizerKind::kMomentum};
      request.remote_homes = homes_before_steps(graph.node(graph.index_of("first")), 1, one);
      for (ParameterHome& home : homes_before_steps(graph.node(graph.index_of("second")), behind, other))
        request.remote_homes.push_back(std::move(home));
      const Plan plan = assemble_plan(graph, request, shards);
      ASSERT_NO_THROW(validate(parse_plan(text_of(plan), "plan"), graph, "plan"));
      ASSERT_EQ(shared_layers(plan, graph), 2);
      const auto exact = +[] { return make_reference_device(ElementType::kFloat64); };
      const auto divided = trained(plan, graph, exact, kSteps);
      const auto same = interpreted(plan, graph, ElementType::kFloat64, kSteps);
      // Where the pipeline drains, numbers are those of one device that has all layers whole.
      const auto whole = drains(alignment) ? interpreted(whole_plan(graph, plan), graph, ElementType::kFloat64, kSteps) : nullptr;
      for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
        const std::vector<double> got = divided->parameter(node.layer.name, parameter);
        ASSERT_LT(distance(got, same->parameter(node.layer.name, parameter.tensor)), 1e-10) << node.layer.name << "." << parameter.tensor;
        if (whole != nullptr) {
          ASSERT_LT(distance(got, whole->parameter(node.layer.name, parameter.tensor)), 1e-10)
              << node.layer.name << "." << parameter.tensor;
        }
      });
    }
  }
}

TEST(DividedByKind, TwoSharedLayersBeforeAResidualAdd) {
  compare_two_shared_layers({.hidden = 7}, {.cell = CellKind::kGru, .hidden = 7, .reset_after = true}, {{0, 1}, {1, 5}, {5, 7}},
                            {{0, 3}, {3, 4}, {4, 7}}, 1);
}

// Of the features each device makes as large a part as of the cells: cells and features divide into five parts, and into five.
TEST(DividedByKind, TwoProjectedLayersBeforeAResidualAdd) {
  compare_two_shared_layers({.hidden = 15, .projection = 5}, {.hidden = 10, .projection = 5}, {{0, 3}, {3, 12}, {12, 15}},
                            {{0, 8}, {8, 10}}, 1);
  compare_two_shared_layers({.hidden = 15, .projection = 5}, {.hidden = 5}, {{0, 12}, {12, 15}}, {{0, 1}, {1, 3}, {3, 5}}, 2);
}

// In fp32 after three updates, norms on the way.
TEST(DividedByKind, TheCpuEngineAgrees) {
  const auto make = +[] { return make_cpu_device(); };
  for (uint32_t seed = 200; seed < 220; ++seed) {
    DrawnByKind draw(seed);
    const Graph graph(draw.model());
    const Plan plan = draw.plan(graph, kDrained[seed % 3], /*lends=*/seed % 2 == 0);
    const Plan whole = whole_plan(graph, plan);
    const auto divided = trained(plan, graph, make, draw.steps);
    const auto expected = trained(whole, graph, make, draw.steps);
    for_each_trained(graph, [&](const Node& node, const ParameterSpec& parameter) {
      ASSERT_LT(distance(divided->parameter(node.layer.name, parameter), expected->parameter(node.layer.name, parameter)), 1e-4)
          << "seed " << seed << ", " << node.layer.name << "." << parameter.tensor;
    });
  }
}

}  // namespace
}  // namespace millrace::by_kind
