// A device as it is, but for a parameter memory that is never full: to see how much of it full speed would need.
//
//   const RoomyMemory roomy(model);
//   ...                                                  // plan with it
//   double needed = device.memory_fraction * RoomyMemory::kTimes;       // of the real memory; above 1: does not fit
//
// Any other factor can be given, infinity too. Borrows the model.
#pragma once

#include <span>
#include <vector>

#include "core/device/forwarding_cost_model.h"

namespace millrace {

class RoomyMemory final : public ForwardingCostModel {
 public:
  static constexpr double kTimes = 1024;

  explicit RoomyMemory(const CostModel& model, double times = kTimes)
      : ForwardingCostModel(model), capacities_(model.capacities().begin(), model.capacities().end()) {
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (model.holds_parameters(i)) capacities_[i].amount *= times;
  }

  std::span<const NamedAmount> capacities() const override { return capacities_; }
  std::vector<LargerEngine> larger_engines(const ShardQuestion&) const override { return {}; }  // whose memory is smaller

 private:
  std::vector<NamedAmount> capacities_;
};

// One that has so large a part of it, for searches that leave some of it free; where asked for, with no engines but the smallest.
class PartOfMemory final : public ForwardingCostModel {
 public:
  PartOfMemory(const CostModel& model, double part, bool enlarges)
      : ForwardingCostModel(model), capacities_(model.capacities().begin(), model.capacities().end()), enlarges_(enlarges) {
    for (size_t i = 0; i < capacities_.size(); ++i)
      if (model.holds_parameters(i)) capacities_[i].amount *= part;
  }

  std::span<const NamedAmount> capacities() const override { return capacities_; }
  bool enlarges_engines(StreamedWords words) const override { return enlarges_ && ForwardingCostModel::enlarges_engines(words); }

 private:
  std::vector<NamedAmount> capacities_;
  bool enlarges_;
};

}  // namespace millrace
