// Pairs of shards of one layer, the second within the first: what a cost model's answers must be monotone over.
//
//   NestedShards shards(random, graph, group);
//   EXPECT_LE(model.demand_of(shards.inner_question()).seconds, model.demand_of(shards.outer_question()).seconds);
//
//   expect_monotone(*model, 300);       // random layers of the zoo, random shards
//
// Shards are as plans have them: runs of the layer's pairs of an input and an output, cut anywhere, or ranges of outputs.
// Questions borrow from the NestedShards they come from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "core/device/cost_model.h"
#include "core/graph/zoo.h"

namespace millrace {

class NestedShards {
 public:
  NestedShards(std::mt19937_64& random, const Graph& graph, const LayerGroup& group) : node_(&graph.node(group.head)) {
    for (const int64_t node : group.after) after_.push_back(&graph.node(node));
    if (!node_->computes) return;
    const auto* conv = std::get_if<Conv2d>(&node_->layer.operation);
    const bool grouped = conv != nullptr && conv->groups > 1;
    by_outputs_ = grouped || std::holds_alternative<Embedding>(node_->layer.operation) || random() % 2 == 0;
    const int64_t parts = by_outputs_ ? node_->output.channels : node_->input_shapes[0].channels * node_->output.channels;
    std::vector<int64_t> cuts;
    for (int i = 0; i < 4; ++i) cuts.push_back(random() % 4 == 0 ? (i < 2 ? 0 : parts) : static_cast<int64_t>(random()) % (parts + 1));
    for (int64_t& cut : cuts) cut = std::abs(cut);
    std::sort(cuts.begin(), cuts.end());
    if (cuts[1] == cuts[2]) cuts[1] > 0 ? --cuts[1] : ++cuts[2];
    cuts[0] = std::min(cuts[0], cuts[1]);
    cuts[3] = std::max(cuts[3], cuts[2]);
    inner_ = blocks_between(cuts[1], cuts[2]);
    outer_ = blocks_between(cuts[0], cuts[3]);
    inner_owner_ = cuts[2] == parts;
    outer_owner_ = cuts[3] == parts;
  }

  ShardQuestion inner_question() const { return question(inner_, inner_owner_); }
  ShardQuestion outer_question() const { return question(outer_, outer_owner_); }
  std::string text() const { return node_->layer.name + " inner " + text_of(inner_) + " outer " + text_of(outer_); }

 private:
  std::vector<Block> blocks_between(int64_t begin, int64_t end) const {
    const ChannelRange inputs{0, node_->input_shapes[0].channels};
    const int64_t outputs = node_->output.channels;
    if (by_outputs_) return {{inputs, {begin, end}}};
    const int64_t first = begin / outputs;
    const int64_t last = end / outputs;
    if (first == last) return {{{first, first + 1}, {begin % outputs, end % outputs}}};
    std::vector<Block> blocks;
    const int64_t whole = begin % outputs == 0 ? first : first + 1;
    if (whole > first) blocks.push_back({{first, whole}, {begin % outputs, outputs}});
    if (last > whole) blocks.push_back({{whole, last}, {0, outputs}});
    if (end % outputs > 0) blocks.push_back({{last, last + 1}, {0, end % outputs}});
    return blocks;
  }

  ShardQuestion question(std::span<const Block> blocks, bool owner) const {
    ShardQuestion question;
    question.node = node_;
    question.blocks = blocks;
    question.owner = owner;
    if (owner) question.after = after_;
    question.period_seconds = 1;
    return question;
  }

  static std::string text_of(std::span<const Block> blocks) {
    std::string text;
    for (const Block& block : blocks) text += millrace::text_of(block.inputs) + "x" + millrace::text_of(block.outputs) + " ";
    return text;
  }

  const Node* node_;
  std::vector<const Node*> after_;
  bool by_outputs_ = false;
  std::vector<Block> inner_, outer_;
  bool inner_owner_ = true, outer_owner_ = true;
};

inline void expect_no_more(const ShardDemand& less, const ShardDemand& more, const std::string& what) {
  constexpr double kRounding = 1 + 1e-12;
  ASSERT_LE(less.seconds, more.seconds * kRounding) << what;
  for (size_t i = 0; i < less.amounts.size(); ++i) ASSERT_LE(less.amounts[i], more.amounts[i] * kRounding) << what << " amount " << i;
  ASSERT_LE(less.parameters, more.parameters * kRounding) << what;
}

inline void expect_monotone(const CostModel& model, int rounds_per_network) {
  for (const char* name : {"mlp", "lenet5", "alexnet-grouped", "vgg16-cifar", "resnet18-cifar", "googlenet", "char-rnn", "text-classifier",
                           "deepspeech2-gru", "rnnt-encoder"}) {
    const Graph graph(zoo_model(name));
    std::mt19937_64 random(std::hash<std::string>{}(name));
    for (int round = 0; round < rounds_per_network; ++round) {
      const LayerGroup& group = graph.groups()[random() % graph.groups().size()];
      const NestedShards shards(random, graph, group);
      ShardQuestion inner = shards.inner_question();
      ShardQuestion outer = shards.outer_question();
      inner.micro_batch = outer.micro_batch = int64_t{1} << random() % 6;
      inner.window = outer.window = 1 + static_cast<int64_t>(random() % 5);
      inner.optimizer_slots = outer.optimizer_slots = static_cast<int>(random() % 3);
      const std::string what = std::string(name) + " " + shards.text();
      const ShardDemand demand = model.demand_of(outer);
      expect_no_more(model.demand_of(inner), demand, what);
      ShardQuestion longer = outer;
      longer.window += 1;
      longer.optimizer_slots += 1;
      expect_no_more(demand, model.demand_of(longer), what + " with a longer window");
      ShardQuestion batched = outer;
      batched.micro_batch *= 2;
      ASSERT_LE(model.demand_of(batched).seconds, demand.seconds * (1 + 1e-12)) << what << " with a larger micro-batch";
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace millrace
