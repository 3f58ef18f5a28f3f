// A device that does a given number of MACs a second and has a given memory: small enough to plan by hand.
#pragma once

#include <vector>

#include "core/device/cost_model.h"

namespace millrace::testing_support {

class HandMadeDevice final : public CostModel {
 public:
  HandMadeDevice(double macs_per_second, double memory_bytes)
      : macs_per_second_(macs_per_second), capacities_{{"memory_bytes", memory_bytes}} {}

  std::string device() const override { return "hand"; }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return 0; }
  std::vector<NamedAmount> inventory() const override { return {{"macs_per_second", macs_per_second_}}; }
  std::vector<Constant> constants() const override { return {}; }

  ShardDemand demand_of(const ShardQuestion& question) const override {
    const Node& node = *question.node;
    const double outputs = static_cast<double>(node.output.channels);
    const double inputs = static_cast<double>(node.input_shapes[0].channels);
    double pairs = 0;
    for (const Block& block : question.blocks) pairs += static_cast<double>(block.inputs.size() * block.outputs.size());
    ShardDemand demand;
    demand.seconds = 3 * static_cast<double>(node.work.forward_macs) * pairs / (inputs * outputs) / macs_per_second_;
    return demand;
  }
  ShardCost cost_of(const ShardQuestion&) const override { return {}; }

 private:
  double macs_per_second_;
  std::vector<NamedAmount> capacities_;
};

}  // namespace millrace::testing_support
