// A device's costs as another model has them: a base for models that differ in little.
//
//   class Roomy final : public ForwardingCostModel {
//    public:
//     explicit Roomy(const CostModel& model) : ForwardingCostModel(model) {}
//     std::span<const NamedAmount> capacities() const override;      // all else is the other's
//   };
//
// Borrows the model.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/device/cost_model.h"

namespace millrace {

class ForwardingCostModel : public CostModel {
 public:
  explicit ForwardingCostModel(const CostModel& model) : model_(&model) {}

  std::string device() const override { return model_->device(); }
  ShardDemand demand_of(const ShardQuestion& question) const override { return model_->demand_of(question); }
  ShardCost cost_of(const ShardQuestion& question) const override { return model_->cost_of(question); }
  std::vector<LargerEngine> larger_engines(const ShardQuestion& question) const override { return model_->larger_engines(question); }
  size_t kind_of_period(double seconds) const override { return model_->kind_of_period(seconds); }
  bool may_wait_outside() const override { return model_->may_wait_outside(); }
  bool enlarges_engines(StreamedWords words) const override { return model_->enlarges_engines(words); }
  std::span<const NamedAmount> capacities() const override { return model_->capacities(); }
  size_t parameter_memory() const override { return model_->parameter_memory(); }
  bool holds_parameters(size_t resource) const override { return model_->holds_parameters(resource); }
  bool keeps_off_chip(const Node& head) const override { return model_->keeps_off_chip(head); }
  std::vector<NamedAmount> inventory() const override { return model_->inventory(); }
  std::vector<Constant> constants() const override { return model_->constants(); }
  std::string refusal(const Node& node) const override { return model_->refusal(node); }
  std::string steps_refusal(const ShardQuestion& question) const override { return model_->steps_refusal(question); }
  int64_t channel_quantum() const override { return model_->channel_quantum(); }
  bool divides(const Node& head) const override { return model_->divides(head); }
  bool dedicated_engines() const override { return model_->dedicated_engines(); }
  double watts(double macs_per_second) const override { return model_->watts(macs_per_second); }

 private:
  const CostModel* model_;
};

}  // namespace millrace
