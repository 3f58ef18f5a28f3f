// The seam everything stands on: plan, flows, actions, interpreter and executors agree, on random networks cut at random.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/validate.h"
#include "core/reference/reference_device.h"
#include "core/train/initialize.h"
#include "tests/core/dataflow/ring_of_executors.h"
#include "tests/core/random_plans.h"

namespace millrace {
namespace {

using testing_support::RandomPlans;
using testing_support::RingOfExecutors;

constexpr Alignment kAlignments[] = {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kStash,
                                     Alignment::kZeroBubble};

// Random pixels and labels that depend on the micro-batch alone; rounded to float so that fp32 and fp64 see the same.
Interpreter::Source source_for(const Plan& plan) {
  return [&plan](int64_t s) {
    Samples samples;
    const Philox draw(99, 1);
    const int64_t elements = plan.model.input.elements();
    for (int64_t i = 0; i < plan.micro_batch; ++i) {
      const int64_t id = s * plan.micro_batch + i;
      samples.ids.push_back(id);
      samples.labels.push_back(static_cast<int32_t>(id % 3));
      for (int64_t e = 0; e < elements; ++e)
        samples.pixels.push_back(draw.uniform(static_cast<uint64_t>(id * elements + e)) - 0.5F + 0.2F * static_cast<float>(id % 3));
    }
    return samples;
  };
}

template <typename Set>
void set_initial(const Graph& graph, Set set) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) {
      if (!parameter.trained) continue;
      std::vector<double> full(static_cast<size_t>(parameter.elements()));
      InitialValues(node.layer, parameter, fans_of(node.parameters.front()), 5).fill(std::span<double>(full));
      set(node.layer.name, parameter, full);
    }
}

std::unique_ptr<Interpreter> interpreted(const Plan& plan, const Graph& graph, ElementType type, int64_t mini_batches, double rate = 0.05) {
  InterpreterOptions options;
  options.type = type;
  options.seed = 5;
  options.learning_rate = [rate](int64_t) { return rate; };
  auto interpreter = std::make_unique<Interpreter>(plan, options, source_for(plan));
  set_initial(graph, [&](const std::string& layer, const ParameterSpec& p, const auto& full) {
    interpreter->set_parameter(layer, p.tensor, full);
  });
  interpreter->run(mini_batches);
  return interpreter;
}

template <typename Visit>
void for_each_parameter(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) visit(node.layer.name, parameter);
}

// Normwise; a tensor that is zero but for rounding (a bias in front of batch norm learns nothing) counts as one of `floor`.
double difference(const std::vector<double>& a, const std::vector<double>& b, double floor = 1e-3) {
  double diff = 0;
  double norm = floor * floor;
  for (size_t i = 0; i < a.size(); ++i) {
    diff += (a[i] - b[i]) * (a[i] - b[i]);
    norm += a[i] * a[i];
  }
  return std::sqrt(diff / norm);
}

TEST(Dataflow, ElementsMovedAreThoseThePlanPredicts) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    const Alignment alignment = kAlignments[seed % 5];
    const Plan plan = random.plan(graph, random.between(1, 5), alignment, 4);
    const int64_t mini_batches = 2;
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, mini_batches);
    for (size_t f = 0; f < plan.flows.size(); ++f)
      EXPECT_EQ(interpreter->moved()[f], plan.flows[f].elements_per_sample * plan.mini_batch * mini_batches)
          << plan.flows[f].tensor << " over link " << plan.flows[f].link;
  }
}

TEST(Dataflow, AnyCutTrainsLikeOneDeviceInDoublePrecision) {
  for (uint64_t seed = 100; seed < 140; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    const Alignment alignment = kAlignments[1 + seed % 2];
    const int64_t devices = random.between(2, 5);
    PlanRequest request = random.request(devices, alignment, 2);
    // Adam divides rounding errors by themselves where the gradient is zero.
    if (request.optimizer.kind == OptimizerKind::kAdam) request.optimizer.kind = OptimizerKind::kMomentum;
    const Plan ring = assemble_plan(graph, request, random.shards(graph, devices));
    request.cluster = uniform_cluster("cpu", 1);
    const Plan alone = single_device_plan(graph, request);
    const auto a = interpreted(ring, graph, ElementType::kFloat64, 6);
    const auto b = interpreted(alone, graph, ElementType::kFloat64, 6);
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_LT(difference(a->parameter(layer, parameter.tensor), b->parameter(layer, parameter.tensor)), 1e-10)
          << layer << "." << parameter.tensor;
    });
  }
}

TEST(Dataflow, ExecutorsAreBitwiseTheInterpreter) {
  for (uint64_t seed = 200; seed < 280; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    Alignment alignment = kAlignments[seed % 5];
    if (alignment == Alignment::kStash) alignment = Alignment::kFpdeep;  // executors hold one weight version
    const Plan plan = random.plan(graph, random.between(1, 5), alignment, 5);
    const int64_t mini_batches = 3;
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, mini_batches);
    RingOfExecutors ring(plan, graph, [] { return make_reference_device(ElementType::kFloat32); });
    for (auto& segment : ring.segments) segment->initialize(5);
    ring.run(mini_batches, 5, 0.05, source_for(plan));
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(ring.parameter(layer, parameter), interpreter->parameter(layer, parameter.tensor)) << layer << "." << parameter.tensor;
    });
    EXPECT_EQ(ring.ports.moved, interpreter->moved());
    double loss = 0;
    for (const Score& score : interpreter->scores()) loss += score.loss;
    EXPECT_NEAR(ring.score.loss, loss, 1e-9 * loss);
  }
}

TEST(Dataflow, RunningStatisticsAreBitwiseTheInterpreters) {
  for (uint64_t seed = 280; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    random.norms = 0.8;
    random.statistics = Statistics::kRunning;
    const Graph graph(random.model());
    Alignment alignment = kAlignments[seed % 5];
    if (alignment == Alignment::kStash) alignment = Alignment::kFpdeep;  // executors hold one weight version
    const Plan plan = random.plan(graph, random.between(1, 5), alignment, 5);
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, 3);
    RingOfExecutors ring(plan, graph, [] { return make_reference_device(ElementType::kFloat32); });
    for (auto& segment : ring.segments) segment->initialize(5);
    ring.run(3, 5, 0.05, source_for(plan));
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(ring.parameter(layer, parameter), interpreter->parameter(layer, parameter.tensor)) << layer << "." << parameter.tensor;
    });
  }
}

// fp32 sums in another order drift apart over many updates, so a few of plain SGD. Two runs must not drift at all.
TEST(Dataflow, CpuDevicesFollowTheFp64InterpreterAndRepeatBitwise) {
  for (uint64_t seed = 400; seed < 430; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    Alignment alignment = kAlignments[seed % 5];
    if (alignment == Alignment::kStash) alignment = Alignment::kFpdeep;  // executors hold one weight version
    const int64_t devices = random.between(2, 5);
    PlanRequest request = random.request(devices, alignment, 4);
    request.optimizer = {.kind = OptimizerKind::kSgd};
    const Plan plan = assemble_plan(graph, request, random.shards(graph, devices));
    const int64_t mini_batches = 2;
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat64, mini_batches);
    const auto trained = [&] {
      auto ring = std::make_unique<RingOfExecutors>(plan, graph, [] { return make_cpu_device(); });
      for (auto& segment : ring->segments) segment->initialize(5);
      ring->run(mini_batches, 5, 0.05, source_for(plan));
      return ring;
    };
    const auto first = trained();
    const auto second = trained();
    EXPECT_EQ(first->ports.moved, interpreter->moved());
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      const std::vector<double> mine = first->parameter(layer, parameter);
      EXPECT_EQ(mine, second->parameter(layer, parameter)) << layer << "." << parameter.tensor;
      // In fp32 the rounding of a sum that ought to cancel is some 1e-6, whatever the tensor's own size.
      EXPECT_LT(difference(mine, interpreter->parameter(layer, parameter.tensor), 0.1), 1e-4) << layer << "." << parameter.tensor;
    });
  }
}

// Layers without weights on the bare input head a group of their own; one of them may be trained all the same. Frozen
// ones take no part in G.
TEST(Dataflow, NormalisedInputAndFrozenLayersTrainAlike) {
  ModelBuilder net("normalised-input", {2, 4, 4});
  net.layer("input.norm", BatchNorm{});
  net.conv("a", 4, {.kernel = 3, .pad = 1});
  net.layer("a.norm", BatchNorm{});
  net.relu("a.relu");
  net.conv("b", 3, {.kernel = 3, .pad = 1});
  net.flatten("flat");
  net.dense("fc", 3);
  Model model = net.finish();
  for (const bool frozen : {false, true}) {
    SCOPED_TRACE(frozen ? "frozen" : "trained");
    for (Layer& layer : model.layers) layer.frozen = frozen && (layer.name == "a" || layer.name == "a.norm");
    const Graph graph(model);
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 3);
    request.alignment = Alignment::kOneForwardOneBackward;
    request.mini_batch = 8;
    request.micro_batch = 2;
    const Plan plan = assemble_plan(graph, request, shards_from_cuts(graph, std::vector<Cut>{{1, 1, 2}, {2, 2, 0}}, {}));
    const auto interpreter = interpreted(plan, graph, ElementType::kFloat32, 3);
    RingOfExecutors ring(plan, graph, [] { return make_reference_device(ElementType::kFloat32); });
    for (auto& segment : ring.segments) segment->initialize(5);
    ring.run(3, 5, 0.05, source_for(plan));
    set_initial(graph, [&](const std::string& layer, const ParameterSpec& parameter, const std::vector<double>& start) {
      const std::vector<double> end = ring.parameter(layer, parameter);
      EXPECT_EQ(end == start, !graph.node(graph.index_of(layer)).trained) << layer << "." << parameter.tensor;
    });
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(ring.parameter(layer, parameter), interpreter->parameter(layer, parameter.tensor)) << layer << "." << parameter.tensor;
    });
  }
}

TEST(Dataflow, DrainedAlignmentsAgreeBitwise) {
  for (uint64_t seed = 300; seed < 315; ++seed) {
    SCOPED_TRACE(seed);
    RandomPlans random(seed);
    const Graph graph(random.model());
    const int64_t devices = random.between(2, 4);
    PlanRequest request = random.request(devices, Alignment::kFlush, 4);
    const std::vector<Shard> shards = random.shards(graph, devices);
    std::vector<std::unique_ptr<Interpreter>> runs;
    for (const Alignment alignment : {Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble}) {
      request.alignment = alignment;
      runs.push_back(interpreted(assemble_plan(graph, request, shards), graph, ElementType::kFloat32, 3));
    }
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(runs[0]->parameter(layer, parameter.tensor), runs[1]->parameter(layer, parameter.tensor));
      EXPECT_EQ(runs[0]->parameter(layer, parameter.tensor), runs[2]->parameter(layer, parameter.tensor));
    });
  }
}

// The gate of the dataflow: three devices share one layer by input channels, with pooling behind the sum, a shortcut
// around it and parameters that live upstream of their user.
TEST(Dataflow, GateOfThreeDevicesWithPoolingShortcutAndBalancedParameters) {
  Model model;
  model.name = "gate";
  model.input = {3, 6, 6};
  const auto add = [&model](const std::string& name, Operation operation, std::vector<std::string> inputs) {
    Layer layer;
    layer.name = name;
    layer.operation = std::move(operation);
    layer.inputs = std::move(inputs);
    model.layers.push_back(std::move(layer));
  };
  add("stem", Conv2d{.out_channels = 7, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, {"input"});
  add("stem.relu", Activation{}, {"stem"});
  add("shared", Conv2d{.out_channels = 7, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1}, {"stem.relu"});
  add("sum", Add{}, {"shared", "stem.relu"});
  add("sum.relu", Activation{}, {"sum"});
  add("pool", Pool2d{}, {"sum.relu"});
  add("flat", Flatten{}, {"pool"});
  add("fc", Dense{.out_features = 3}, {"flat"});
  add("loss", SoftmaxCrossEntropy{}, {"fc"});
  const Graph graph(model);
  // shared: device 0 has channels 0-1 and two outputs of channel 2, device 1 the rest of 2, 3 and four of 4, device 2 the rest.
  const std::vector<Cut> cuts = {{1, 2, 2}, {1, 4, 4}};
  const std::vector<Shard> shards = shards_from_cuts(graph, cuts, {});
  for (const Alignment alignment : kAlignments) {
    SCOPED_TRACE(name_of(alignment));
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", 3);
    request.alignment = alignment;
    request.mini_batch = 8;
    request.micro_batch = 2;
    const Plan local = assemble_plan(graph, request, shards);
    // 20 weights of device 2's shard and all of fc's bias live on device 0, 10 of device 1's there too.
    request.remote_homes = {{"shared", "weight", 5, 20, 0, 2}, {"fc", "bias", 0, 3, 0, 2}, {"shared", "weight", 0, 10, 0, 1}};
    const Plan balanced = assemble_plan(graph, request, shards);
    EXPECT_NO_THROW(validate(balanced, graph, "gate"));
    const int64_t mini_batches = 4;
    const auto at_home = interpreted(local, graph, ElementType::kFloat32, mini_batches);
    const auto away = interpreted(balanced, graph, ElementType::kFloat32, mini_batches);
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(at_home->parameter(layer, parameter.tensor), away->parameter(layer, parameter.tensor)) << layer;
    });
    // Between the first and the second link: 7 partial sums of 6x6, shared's inputs and the shortcut, three slices.
    int64_t parameters = 0;
    for (size_t f = 0; f < balanced.flows.size(); ++f) {
      const Flow& flow = balanced.flows[f];
      if (flow.stream == Stream::kGradient) {
        EXPECT_EQ(away->moved()[f], flow.elements_per_pass * 4 * mini_batches);
      }
      if (flow.stream != Stream::kParameter) continue;
      ++parameters;
      const int64_t user = balanced.shards[static_cast<size_t>(flow.consumer_shard)].device;
      const auto actions = actions_of(schedule_spec(balanced, user, mini_batches));
      EXPECT_EQ(away->moved()[f], flow.elements_per_pass * parameter_passes(actions));
    }
    EXPECT_EQ(parameters, 5);                      // two slices over two links, one over one
    if (alignment == Alignment::kStash) continue;  // executors hold one weight version
    RingOfExecutors ring(local, graph, [] { return make_reference_device(ElementType::kFloat32); });
    for (auto& segment : ring.segments) segment->initialize(5);
    ring.run(mini_batches, 5, 0.05, source_for(local));
    EXPECT_EQ(ring.ports.moved, at_home->moved());
    for_each_parameter(graph, [&](const std::string& layer, const ParameterSpec& parameter) {
      EXPECT_EQ(ring.parameter(layer, parameter), at_home->parameter(layer, parameter.tensor)) << layer;
    });
  }
}

}  // namespace
}  // namespace millrace
