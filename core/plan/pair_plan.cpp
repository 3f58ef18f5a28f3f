#include "core/plan/pair_plan.h"

#include <cmath>
#include <utility>

#include "core/plan/assemble.h"
#include "core/plan/pair_modes.h"
#include "core/plan/parts.h"

namespace millrace {
namespace {

constexpr int64_t kScores = 2;
constexpr double kNextToNothing = 1e-9;

std::string layer_name(int64_t layer) { return "layer" + std::to_string(layer); }

class PairPlan {
 public:
  PairPlan(const PairNetwork& network, const PairTimes& times) : batch_(static_cast<double>(network.batch)), times_(times) {}

  void add_products(const Node& layer, bool errors_go_on) {
    Shard& shard = add(layer);
    shard.blocks = {{{0, layer.input_shapes[0].channels}, {0, sum_shape(layer).channels}}};
    set_phases(shard, times_.input, errors_go_on ? times_.input : 0, times_.gradient);
  }
  void add_steps(const Node& layer) {
    Shard& shard = add(layer);
    set_phases(shard, times_.steps_forward, times_.steps_back, 0);
    shard.resources.push_back({std::string(kInputProductSeconds), times_.on_board / batch_});
  }
  void add_scores(const Node& layer) {
    Shard& shard = add(layer);
    shard.blocks = {{{0, layer.input_shapes[0].channels}, {0, kScores}}};
    set_phases(shard, kNextToNothing, kNextToNothing, kNextToNothing);
  }
  std::vector<Shard> take() { return std::move(shards_); }

 private:
  Shard& add(const Node& layer) {
    Shard& shard = shards_.emplace_back();
    shard.device = static_cast<int64_t>(shards_.size()) - 1;
    shard.layer = layer.layer.name;
    shard.unit = StreamingUnit::kSample;
    return shard;
  }
  void set_phases(Shard& shard, double forward, double back, double gradient) const {
    for (const auto& [phase, seconds] :
         {std::pair(Phase::kForward, forward), {Phase::kErrorBack, back}, {Phase::kParameterGradient, gradient}})
      if (seconds > 0) shard.phases.push_back({phase, "engine", 0, std::llround(1e12 * seconds / batch_)});
  }

  double batch_;
  const PairTimes& times_;
  std::vector<Shard> shards_;
};

}  // namespace

Model pair_model(const PairNetwork& network) {
  Model model{.name = "pair", .input_kind = InputKind::kImage, .input = {network.inputs, network.steps, 1}, .layers = {}};
  const auto add = [&](std::string name, Operation operation) {
    std::string before = model.layers.empty() ? std::string(kInputName) : model.layers.back().name;
    model.layers.push_back({.name = std::move(name), .operation = std::move(operation), .inputs = {std::move(before)}});
  };
  for (int64_t l = 0; l < network.layers; ++l) add(layer_name(l), network.cell);
  add("last", LastStep{});
  add("scores", Dense{.out_features = kScores});
  add("loss", SoftmaxCrossEntropy{});
  return model;
}

Plan pair_plan(const Graph& graph, const PairNetwork& network, const PairTimes& times, double link_gbps) {
  PlanRequest request;
  request.cluster = folded(uniform_cluster("cpu", 2, {link_gbps, link_gbps, 0, 0.5}), network.layers);
  request.alignment = Alignment::kFlush;
  request.micro_batch = request.mini_batch = network.batch;
  PairPlan made(network, times);
  for (int64_t l = 0; l < network.layers; ++l) {
    const Node& layer = graph.node(graph.index_of(layer_name(l)));
    made.add_products(layer, l > 0);
    made.add_steps(layer);
    for (ParameterHome& home : homes_before_steps(layer, 2 * l + 1)) request.remote_homes.push_back(std::move(home));
  }
  made.add_scores(graph.node(graph.index_of("scores")));
  return assemble_plan(graph, request, made.take());
}

}  // namespace millrace
