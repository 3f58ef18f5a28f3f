// Recurrent networks over several devices, whole layers each: executors and interpreter agree, and no cut changes a bit.
#include <gtest/gtest.h>

#include "core/cpu/cpu_device.h"
#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/reference/reference_device.h"
#include "core/train/initialize.h"
#include "tests/core/dataflow/ring_of_executors.h"

namespace millrace {
namespace {

using testing_support::RingOfExecutors;

constexpr int64_t kSteps = 5, kVocabulary = 7;

// Every cell, a shortcut past two of them, batch norm between; scores at every step.
Model text_model() {
  ModelBuilder net("text", {1, kSteps, 1});
  net.layer("embedding", Embedding{.vocabulary = kVocabulary, .dimension = 4});
  net.layer("lstm", Recurrent{.hidden = 6, .projection = 4, .stateful = true});
  const std::string shortcut = net.last();
  net.layer("norm", BatchNorm{});
  net.layer("gru", Recurrent{.cell = CellKind::kGru, .hidden = 5, .stateful = true});
  net.layer("both", Recurrent{.cell = CellKind::kVanillaTanh, .hidden = 2, .bidirectional = true});
  net.add("join", {net.last(), shortcut});
  net.layer("tanh", Activation{.kind = ActivationKind::kTanh});
  net.layer("rnn", Recurrent{.cell = CellKind::kVanillaRelu, .hidden = 5, .truncation = 2});
  net.dense("fc", kVocabulary);
  Model model = net.finish();
  for (Layer& layer : model.layers) layer.initializer = Initializer::kTorchUniform;
  return model;
}

Interpreter::Source text_source_for(const Plan& plan) {
  return [&plan](int64_t s) {
    Samples samples;
    const Philox draw(31, 1);
    for (int64_t i = 0; i < plan.micro_batch; ++i) {
      const int64_t id = s * plan.micro_batch + i;
      samples.ids.push_back(id);
      samples.lengths.push_back(static_cast<int32_t>(id % 3 == 0 ? kSteps - 2 : kSteps));
      for (int64_t t = 0; t < kSteps; ++t) {
        const auto token = static_cast<int32_t>(draw.below(static_cast<uint64_t>(id * kSteps + t), kVocabulary));
        samples.pixels.push_back(static_cast<double>(token));
        samples.labels.push_back(t < samples.lengths.back() ? (token + 1) % static_cast<int32_t>(kVocabulary) : kNoLabel);
      }
    }
    return samples;
  };
}

Plan plan_for(const Graph& graph, const std::vector<int64_t>& first_groups, Alignment alignment) {
  PlanRequest request;
  request.cluster = uniform_cluster("cpu", static_cast<int64_t>(first_groups.size()) + 1);
  request.alignment = alignment;
  request.mini_batch = 8;
  request.micro_batch = 2;
  request.optimizer = {.kind = OptimizerKind::kMomentum};
  std::vector<Cut> cuts;
  for (const int64_t group : first_groups) cuts.push_back({group, 0, 0});
  return assemble_plan(graph, request, shards_from_cuts(graph, cuts, std::vector<Split>(graph.groups().size(), Split::kInputChannels)));
}

std::unique_ptr<RingOfExecutors> trained(const Plan& plan, const Graph& graph, std::unique_ptr<Device> (*make)()) {
  auto ring = std::make_unique<RingOfExecutors>(plan, graph, make);
  for (auto& segment : ring->segments) segment->initialize(5);
  ring->run(3, 5, 0.05, text_source_for(plan));
  return ring;
}

template <typename Visit>
void for_each_parameter_and_node(const Graph& graph, Visit visit) {
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) visit(node, parameter);
}

TEST(RecurrentDataflow, ExecutorsAreBitwiseTheInterpreter) {
  const Graph graph(text_model());
  for (const Alignment alignment : {Alignment::kFpdeep, Alignment::kFlush, Alignment::kOneForwardOneBackward, Alignment::kZeroBubble})
    for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{{}, {2}, {1, 3}, {2, 3, 5}}) {
      const Plan plan = plan_for(graph, cuts, alignment);
      SCOPED_TRACE(std::string(name_of(alignment)) + " on " + std::to_string(plan.devices()));
      InterpreterOptions options;
      options.type = ElementType::kFloat32;
      options.seed = 5;
      options.learning_rate = [](int64_t) { return 0.05; };
      Interpreter interpreter(plan, options, text_source_for(plan));
      for_each_parameter_and_node(graph, [&](const Node& node, const ParameterSpec& parameter) {
        if (!parameter.trained) return;
        std::vector<double> full(static_cast<size_t>(parameter.elements()));
        InitialValues(node.layer, parameter, fans_of(node.parameters.front()), 5).fill(std::span<double>(full));
        interpreter.set_parameter(node.layer.name, parameter.tensor, full);
      });
      interpreter.run(3);
      const auto ring = trained(plan, graph, [] { return make_reference_device(ElementType::kFloat32); });
      for_each_parameter_and_node(graph, [&](const Node& node, const ParameterSpec& parameter) {
        EXPECT_EQ(ring->parameter(node.layer.name, parameter), interpreter.parameter(node.layer.name, parameter.tensor))
            << node.layer.name << "." << parameter.tensor;
      });
      EXPECT_EQ(ring->ports.moved, interpreter.moved());
    }
}

TEST(RecurrentDataflow, CutsBetweenLayersChangeNoBitOnTheCpu) {
  const Graph graph(text_model());
  const auto make = +[] { return make_cpu_device(); };
  const Plan alone = plan_for(graph, {}, Alignment::kFlush);
  const auto expected = trained(alone, graph, make);
  for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{{1}, {2}, {3}, {4}, {5}, {1, 2, 3, 4, 5}}) {
    const Plan plan = plan_for(graph, cuts, Alignment::kFlush);
    const auto ring = trained(plan, graph, make);
    for_each_parameter_and_node(graph, [&](const Node& node, const ParameterSpec& parameter) {
      EXPECT_EQ(ring->parameter(node.layer.name, parameter), expected->parameter(node.layer.name, parameter))
          << node.layer.name << "." << parameter.tensor << ", " << plan.devices() << " devices";
    });
  }
}

}  // namespace
}  // namespace millrace
