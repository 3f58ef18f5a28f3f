// What recurrent layers take on a board: the steps of a layer that is divided by kind, on chained elements, and whole layers of a plan for
// inference, on blocked engines.
//
//   const RecurrentCosts recurrent(board, /*element_bits=*/16, inference);
//   if (recurrent.counts(question)) return recurrent.demand_of(question);
//
// Answers are pure; rows of chained elements that were found once are kept, for calls from several threads too. Internal to fpga/cost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "fpga/cost/blocked_engines.h"
#include "fpga/cost/chained_steps.h"
#include "fpga/cost/fpga_resources.h"
#include "fpga/cost/inference_batch.h"

namespace millrace {

inline constexpr size_t kOnChipMemory = 3;  // index into a board's capacities

class RecurrentCosts {
 public:
  RecurrentCosts(FpgaResources board, int64_t element_bits, const InferenceBatch& inference);

  // Whether a shard is of these engines.
  bool counts(const ShardQuestion& question) const;
  ShardDemand demand_of(const ShardQuestion& question) const;
  // `capacities`: of the board, whose names its amounts have. Fails with kUsage where no engine does it.
  ShardCost cost_of(const ShardQuestion& question, std::span<const NamedAmount> capacities) const;
  // Why the board has no part in a layer, as the end of a sentence; "": it may have.
  std::string refusal(const Node& node) const;
  // Why no chained elements take the steps; "": some do.
  std::string steps_refusal(const ShardQuestion& question) const;

 private:
  bool is_blocked(const Node* node) const;
  ShardDemand steps_demand(const ShardQuestion& question) const;
  ShardCost steps_cost(const ShardQuestion& question, std::span<const NamedAmount> capacities) const;
  ShardDemand blocked_demand(const ShardQuestion& question) const;
  ShardCost blocked_cost(const ShardQuestion& question) const;
  FabricUse fabric_behind(const ShardQuestion& question) const;

  FpgaResources board_;
  int64_t element_bits_;
  std::unique_ptr<BlockedEngines> blocked_;  // of plans for inference
  mutable KnownRows rows_;
};

}  // namespace millrace
