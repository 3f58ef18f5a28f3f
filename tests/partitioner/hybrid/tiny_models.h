// Networks small enough to try every cut of, and a cost model whose answers are plain sums of drawn numbers.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/device/cost_model.h"
#include "core/graph/graph.h"
#include "core/plan/assemble.h"
#include "partitioner/planning/planning.h"

namespace millrace::testing_support {

class TinyInstances {
 public:
  explicit TinyInstances(uint64_t seed) : generator_(seed) {}

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator_); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator_); }
  bool chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }

  // Two to four layers of one to three channels, with activations, poolings, a shortcut or a concatenation now and then.
  Model model() {
    Model model;
    model.name = "tiny";
    model.input = {between(1, 3), 4, 4};
    std::string last(kInputName);
    std::string earlier;
    int64_t channels = model.input.channels;
    int64_t earlier_channels = 0;
    const int64_t layers = between(2, 4);
    const auto add = [&](std::string name, Operation operation, std::vector<std::string> inputs) {
      model.layers.push_back({.name = name, .operation = std::move(operation), .inputs = std::move(inputs)});
      last = std::move(name);
    };
    for (int64_t i = 0; i < layers; ++i) {
      const std::string name = "conv" + std::to_string(i);
      const bool shortcut = !earlier.empty() && chance(0.3);
      const bool grouped = !shortcut && channels == 2 && chance(0.3);
      const int64_t out = shortcut ? earlier_channels : grouped ? 2 : between(1, 3);
      add(name, Conv2d{.out_channels = out, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1, .groups = grouped ? 2 : 1}, {last});
      if (shortcut) {
        add(name + ".add", Add{}, {last, earlier});
      } else if (!earlier.empty() && chance(0.15) && out + earlier_channels <= 4) {
        add(name + ".concat", Concat{}, {last, earlier});
        channels = out + earlier_channels;
        earlier = last;
        earlier_channels = channels;
        continue;
      }
      channels = out;
      if (chance(0.4)) add(name + ".relu", Activation{}, {last});
      earlier = last;
      earlier_channels = channels;
    }
    add("pool", GlobalPool{}, {last});
    add("flat", Flatten{}, {last});
    add("fc", Dense{.out_features = 2}, {last});
    add("loss", SoftmaxCrossEntropy{}, {last});
    return model;
  }

  std::vector<LinkEntry> links(int64_t devices) {
    std::vector<LinkEntry> links;
    const bool equal = chance(0.4);
    LinkEntry first{real(1e-6, 1e-4), real(1e-6, 1e-4), chance(0.3) ? real(1e-6, 1e-4) : 0, 0.5};
    for (int64_t i = 0; i + 1 < devices; ++i)
      links.push_back(equal ? first : LinkEntry{real(1e-6, 1e-4), real(1e-6, 1e-4), chance(0.2) ? real(1e-6, 1e-4) : 0, 0.5});
    return links;
  }

  std::mt19937_64& generator() { return generator_; }

 private:
  std::mt19937_64 generator_;
};

// Work of a shard: its kernels, and a bit for every layer after the sum. Engines take turns, or are rounded up to tiles.
class DrawnCostModel final : public CostModel {
 public:
  struct Settings {
    double seconds_per_pair = 1e-3;
    double memory = 1e9;  // bytes; a pair of weights takes one, an input channel held two
    int64_t quantum = 1;
    bool dedicated = false;
    double engines = 10;  // of dedicated devices: tiles of one pair a millisecond
    bool dense_off_chip = false;
    double dense_weight_bytes = 1;  // of a pair
    std::string memory_name = "memory_bytes";
  };
  explicit DrawnCostModel(const Settings& settings)
      : settings_(settings),
        capacities_{{settings.memory_name, settings.memory}, {"engines", settings.dedicated ? settings.engines : 1e30}} {}

  std::string device() const override { return "drawn"; }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return 0; }
  std::vector<Constant> constants() const override { return {}; }
  int64_t channel_quantum() const override { return settings_.quantum; }
  bool dedicated_engines() const override { return settings_.dedicated; }
  bool keeps_off_chip(const Node& head) const override {
    return settings_.dense_off_chip && std::holds_alternative<Dense>(head.layer.operation);
  }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    double pairs = 0;
    ChannelRange inputs;
    for (const Block& block : question.blocks) {
      pairs += static_cast<double>(block.inputs.size() * block.outputs.size());
      inputs = hull(inputs, block.inputs);
    }
    const double work = pairs * settings_.seconds_per_pair + 0.1 * settings_.seconds_per_pair * static_cast<double>(question.after.size());
    ShardDemand demand;
    if (settings_.dedicated) {
      demand.amounts[1] = std::ceil(work / question.period_seconds);
    } else {
      demand.seconds = work;
    }
    demand.amounts[0] = 2 * static_cast<double>(inputs.size());
    const bool dense = std::holds_alternative<Dense>(question.node->layer.operation);
    demand.parameters = question.off_chip || keeps_off_chip(*question.node) ? 0 : pairs * (dense ? settings_.dense_weight_bytes : 1);
    return demand;
  }

  ShardCost cost_of(const ShardQuestion& question) const override {
    const ShardDemand demand = demand_of(question);
    ShardCost cost;
    const double seconds = settings_.dedicated ? question.period_seconds : demand.seconds;
    cost.phases = {{Phase::kForward, "drawn", static_cast<int64_t>(demand.amounts[1]), static_cast<int64_t>(std::ceil(seconds * 1e12))}};
    cost.resources = {{settings_.memory_name, demand.amounts[0]}, {"parameter_" + settings_.memory_name, demand.parameters}};
    cost.seconds_per_sample = seconds;
    return cost;
  }

 private:
  Settings settings_;
  std::vector<NamedAmount> capacities_;
};

}  // namespace millrace::testing_support
