// A device as it is, but for a parameter memory that is never full: to see how much of it full speed would need.
//
//   const RoomyMemory roomy(model);
//   ...                                                  // plan with it
//   double needed = device.memory_fraction * RoomyMemory::kTimes;       // of the real memory; above 1: does not fit
//
// Any other factor can be given, infinity too. Borrows the model.
#pragma once

#include <string>
#include <vector>

#include "core/device/cost_model.h"

namespace millrace {

class RoomyMemory final : public CostModel {
 public:
  static constexpr double kTimes = 1024;

  explicit RoomyMemory(const CostModel& model, double times = kTimes)
      : model_(&model), capacities_(model.capacities().begin(), model.capacities().end()) {
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (model.holds_parameters(i)) capacities_[i].amount *= times;
  }

  std::string device() const override { return model_->device(); }
  ShardDemand demand_of(const ShardQuestion& question) const override { return model_->demand_of(question); }
  ShardCost cost_of(const ShardQuestion& question) const override { return model_->cost_of(question); }
  std::span<const NamedAmount> capacities() const override { return capacities_; }
  size_t parameter_memory() const override { return model_->parameter_memory(); }
  bool holds_parameters(size_t resource) const override { return model_->holds_parameters(resource); }
  bool keeps_off_chip(const Node& head) const override { return model_->keeps_off_chip(head); }
  std::vector<NamedAmount> inventory() const override { return model_->inventory(); }
  std::vector<Constant> constants() const override { return model_->constants(); }
  std::string refusal(const Node& node) const override { return model_->refusal(node); }
  std::string steps_refusal(const ShardQuestion& question) const override { return model_->steps_refusal(question); }
  int64_t channel_quantum() const override { return model_->channel_quantum(); }
  bool dedicated_engines() const override { return model_->dedicated_engines(); }
  double watts(double macs_per_second) const override { return model_->watts(macs_per_second); }

 private:
  const CostModel* model_;
  std::vector<NamedAmount> capacities_;
};

}  // namespace millrace
