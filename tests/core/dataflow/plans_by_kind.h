// Drawn networks of recurrent layers, and drawn plans that divide some of them by kind: x W on one device or two, by inputs or by sums,
// the steps on the next.
#pragma once

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/graph/model_builder.h"
#include "core/plan/assemble.h"
#include "core/plan/flows.h"
#include "core/plan/parts.h"

namespace millrace::testing_support {

inline Shard shard_on(int64_t device, const std::string& layer, std::vector<Block> blocks = {}) {
  Shard shard;
  shard.device = device;
  shard.layer = layer;
  shard.blocks = std::move(blocks);
  return shard;
}

class DrawnByKind {
 public:
  explicit DrawnByKind(uint32_t seed) : random_(seed) {}

  int64_t from_to(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  bool one_in(int64_t number) { return from_to(1, number) == 1; }

  static constexpr int64_t kVocabulary = 6;
  int64_t steps = 1;

  // One to three recurrent layers of every cell, some with a residual add, a norm or an activation behind; scores at every step.
  Model model() {
    steps = from_to(1, 6);
    ModelBuilder net("drawn", {1, steps, 1});
    net.layer("embedding", Embedding{.vocabulary = kVocabulary, .dimension = from_to(1, 5)});
    const int64_t layers = from_to(1, 3);
    for (int64_t i = 0; i < layers; ++i) {
      const std::string number = std::to_string(i), before = net.last();
      Recurrent cell{.cell = static_cast<CellKind>(from_to(0, 3)), .hidden = from_to(2, 6)};
      if (cell.cell == CellKind::kLstm && one_in(3)) cell.projection = from_to(1, cell.hidden - 1);
      // Devices that share steps divide cells and features in the same proportion.
      if (std::gcd(cell.hidden, cell.projection) == 1 && cell.hidden % 2 == 0) cell.projection = cell.hidden / 2;
      if (cell.cell == CellKind::kGru) cell.reset_after = one_in(2);
      cell.bidirectional = one_in(3);
      if (!cell.bidirectional) cell.stateful = one_in(3);
      if (one_in(3)) cell.truncation = from_to(1, 3);
      const int64_t features = cell.features();
      const bool residual = !cell.bidirectional && i > 0 && features == features_ && one_in(2);
      net.layer("rnn" + number, cell);
      if (residual) net.add("join" + number, {net.last(), before});
      if (one_in(4)) net.layer("tanh" + number, Activation{.kind = ActivationKind::kTanh});
      if (one_in(4)) net.layer("norm" + number, BatchNorm{});
      features_ = cell.bidirectional ? 0 : features;
    }
    net.dense("fc", kVocabulary);
    Model model = net.finish();
    for (Layer& layer : model.layers) layer.initializer = Initializer::kTorchUniform;
    return model;
  }

  // At least one layer is divided. With `lends`, the steps of at least one have their parameters on the device before.
  // With `shares`, too, up to three devices share the steps of layers that can be.
  Plan plan(const Graph& graph, Alignment alignment, bool lends = false, bool shares = false) {
    std::vector<Shard> shards;
    std::vector<ParameterHome> homes;
    int64_t device = 0;
    bool any = false;
    while (!any) {
      shards.clear();
      homes.clear();
      device = 0;
      for (const LayerGroup& group : graph.groups()) {
        const Node& head = graph.node(group.head);
        const Block all{{0, head.input_shapes[0].channels}, {0, sum_shape(head).channels}};
        const std::string& layer = head.layer.name;
        if (!shards.empty() && one_in(3)) ++device;
        if (role_of(head.layer.operation) != Role::kRecurrence || one_in(3)) {
          shards.push_back(shard_on(device, layer, {all}));
          continue;
        }
        any = true;
        for (const Block& block : parts_of(all)) shards.push_back(shard_on(device++, layer, {block}));
        if (const std::vector<ChannelRange> units = shares ? units_of(head) : std::vector<ChannelRange>{}; units.size() > 1) {
          for (ParameterHome& home : homes_before_steps(head, device, units)) homes.push_back(std::move(home));
          for (const ChannelRange& one : units) {
            shards.push_back(shard_on(device++, layer));
            shards.back().units = one;
          }
          --device;
          if (apart_ && !group.after.empty()) add_after(shards, layer, device);
          continue;
        }
        shards.push_back(shard_on(device, layer));
        if (lends && (homes.empty() || !one_in(3)))
          for (ParameterHome& home : homes_before_steps(head, device)) homes.push_back(std::move(home));
        if (apart_ && !group.after.empty()) add_after(shards, layer, device);
      }
    }
    PlanRequest request;
    request.cluster = uniform_cluster("cpu", device + 1);
    request.alignment = alignment;
    request.micro_batch = from_to(2, 3);  // norms take statistics of it
    request.mini_batch = request.micro_batch * from_to(2, 3);
    request.optimizer = {.kind = OptimizerKind::kMomentum};
    request.remote_homes = std::move(homes);
    return assemble_plan(graph, request, shards);
  }

  // What follows a divided layer is on the device behind its steps, in plans drawn from here on.
  void draw_what_follows_apart() { apart_ = true; }

 private:
  static void add_after(std::vector<Shard>& shards, const std::string& layer, int64_t& device) {
    shards.push_back(shard_on(++device, layer));
    shards.back().after = true;
  }

  std::vector<ChannelRange> units_of(const Node& head) {
    const auto& cell = std::get<Recurrent>(head.layer.operation);
    if (cell.cell == CellKind::kGru && !cell.reset_after) return {};
    std::vector<ChannelRange> units;
    const int64_t grain = grain_of(cell), grains = cell.hidden / grain;
    const int64_t devices = from_to(1, std::min<int64_t>(3, grains));
    for (int64_t i = 0, begin = 0; i < devices; ++i) {
      const int64_t end = i + 1 == devices ? grains : from_to(begin + 1, grains - (devices - 1 - i));
      units.push_back({grain * begin, grain * end});
      begin = end;
    }
    return units;
  }

  std::vector<Block> parts_of(const Block& all) {
    const bool by_sums = one_in(2);
    const ChannelRange& range = by_sums ? all.outputs : all.inputs;
    if (range.size() < 2 || one_in(2)) return {all};
    const int64_t cut = from_to(1, range.size() - 1);
    Block first = all, second = all;
    (by_sums ? first.outputs : first.inputs).end = cut;
    (by_sums ? second.outputs : second.inputs).begin = cut;
    return {first, second};
  }

  std::mt19937 random_;
  int64_t features_ = 0;
  bool apart_ = false;
};

}  // namespace millrace::testing_support
