// Random small networks and random cuts of them, for property tests of everything that reads plans.
//
//   RandomPlans random(seed);
//   const Graph graph(random.model());
//   const Plan plan = random.plan(graph, /*devices=*/3, Alignment::kFlush, /*micro_batches=*/2);
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"

namespace millrace::testing_support {

class RandomPlans {
 public:
  explicit RandomPlans(uint64_t seed) : generator_(seed) {}

  // Of batch norms: how many convolutions have one, and what they are trained with.
  double norms = 0.3;
  Statistics statistics = Statistics::kExact;

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }

  Model model() {
    model_ = Model{};
    model_.name = "random";
    model_.input = {between(1, 3), 6, 6};
    channels_ = model_.input.channels;
    size_ = 6;
    last_ = std::string(kInputName);
    const int64_t blocks = between(1, 3);
    for (int64_t b = 0; b < blocks; ++b) add_block();
    if (chance(0.5)) {
      add("gap", GlobalPool{}, {last_});
    }
    add("flat", Flatten{}, {last_});
    if (chance(0.4)) {
      add("fc0", Dense{.out_features = between(3, 6), .bias = chance(0.7)}, {last_});
      add("fc0.act", Activation{.kind = ActivationKind::kTanh}, {last_});
    }
    if (chance(0.3)) add("drop", Dropout{.probability = 0.3}, {last_});
    add("fc", Dense{.out_features = 3}, {last_});
    add("loss", SoftmaxCrossEntropy{}, {last_});
    return model_;
  }

  // D-1 distinct random cuts, input or output channels by group.
  std::vector<Shard> shards(const Graph& graph, int64_t devices) {
    const auto groups = static_cast<int64_t>(graph.groups().size());
    std::vector<Split> splits;
    for (int64_t g = 0; g < groups; ++g) splits.push_back(chance(0.3) ? Split::kOutputChannels : Split::kInputChannels);
    std::set<Cut> cuts;
    while (static_cast<int64_t>(cuts.size()) < devices - 1) {
      Cut cut{between(0, groups - 1), 0, 0};
      const Node& head = graph.node(graph.groups()[static_cast<size_t>(cut.group)].head);
      const int64_t inputs = head.input_shapes[0].channels;
      const int64_t outputs = sum_shape(head).channels;
      const auto* conv = std::get_if<Conv2d>(&head.layer.operation);
      if (chance(0.7)) {
        if (conv != nullptr && conv->groups > 1) {
          cut.channel = outputs / conv->groups * between(0, conv->groups - 1);
        } else if (splits[static_cast<size_t>(cut.group)] == Split::kOutputChannels) {
          cut.channel = between(0, outputs - 1);
        } else {
          cut.channel = between(0, inputs - 1);
          if (chance(0.5)) cut.outputs = between(0, outputs - 1);
        }
      }
      cuts.insert(cut);
    }
    const std::vector<Cut> ascending(cuts.begin(), cuts.end());
    return shards_from_cuts(graph, ascending, splits);
  }

  PlanRequest request(int64_t devices, Alignment alignment, int64_t micro_batches) {
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", devices);
    request.alignment = alignment;
    request.micro_batch = between(1, 3);
    if (request.micro_batch == 1) request.micro_batch = 2;  // batch norm over one element is refused
    request.mini_batch = request.micro_batch * micro_batches;
    const OptimizerKind kinds[] = {OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kNesterov, OptimizerKind::kAdam};
    request.optimizer.kind = kinds[between(0, 3)];
    request.optimizer.weight_decay = chance(0.5) ? 0.01 : 0;
    return request;
  }

  Plan plan(const Graph& graph, int64_t devices, Alignment alignment, int64_t micro_batches) {
    return assemble_plan(graph, request(devices, alignment, micro_batches), shards(graph, devices));
  }

 private:
  void add(const std::string& name, Operation operation, std::vector<std::string> inputs) {
    Layer layer;
    layer.name = name;
    layer.operation = std::move(operation);
    layer.inputs = std::move(inputs);
    model_.layers.push_back(std::move(layer));
    last_ = name;
  }
  std::string fresh(const std::string& stem) { return stem + std::to_string(++count_); }

  std::string conv(const std::string& from, int64_t out, int64_t groups = 1) {
    const int64_t kernel = chance(0.5) ? 3 : 1;
    const std::string name = fresh("conv");
    add(name,
        Conv2d{.out_channels = out,
               .kernel_h = kernel,
               .kernel_w = kernel,
               .pad_h = kernel / 2,
               .pad_w = kernel / 2,
               .groups = groups,
               .bias = chance(0.6)},
        {from});
    if (chance(norms)) add(fresh("bn"), BatchNorm{.statistics = statistics}, {last_});
    if (chance(0.6)) add(fresh("act"), Activation{.kind = chance(0.7) ? ActivationKind::kRelu : ActivationKind::kSigmoid}, {last_});
    return last_;
  }

  void add_block() {
    const int64_t out = between(2, 5);
    const double kind = std::uniform_real_distribution<double>(0, 1)(generator_);
    if (kind < 0.35) {
      conv(last_, out);
      channels_ = out;
    } else if (kind < 0.6) {  // residual: two convolutions beside a shortcut
      const std::string trunk = conv(last_, out);
      const std::string inner = conv(trunk, out);
      add(fresh("add"), Add{}, chance(0.5) ? std::vector{inner, trunk} : std::vector{trunk, inner});
      add(fresh("act"), Activation{}, {last_});
      channels_ = out;
    } else if (kind < 0.85) {  // inception: branches joined along channels
      const std::string from = last_;
      const std::string a = conv(from, out);
      const std::string b = conv(from, between(1, 3));
      const int64_t b_channels = channels_of(b);
      add(fresh("concat"), Concat{}, {a, b});
      channels_ = out + b_channels;
    } else {  // grouped
      conv(last_, 4);
      conv(last_, 4, 2);
      channels_ = 4;
    }
    if (size_ > 2 && chance(0.5)) {
      add(fresh("pool"), Pool2d{.kind = chance(0.6) ? PoolKind::kMax : PoolKind::kAverage}, {last_});
      size_ /= 2;
    }
    if (chance(0.15)) add(fresh("lrn"), LocalResponseNorm{.size = 3}, {last_});
  }
  // Output channels of the latest convolution at or before a layer.
  int64_t channels_of(const std::string& name) const {
    int64_t channels = channels_;
    for (const Layer& layer : model_.layers) {
      if (const auto* conv = std::get_if<Conv2d>(&layer.operation)) channels = conv->out_channels;
      if (layer.name == name) break;
    }
    return channels;
  }

  std::mt19937_64 generator_;
  Model model_;
  std::string last_;
  int64_t channels_ = 0;
  int64_t size_ = 0;
  int64_t count_ = 0;
};

}  // namespace millrace::testing_support
