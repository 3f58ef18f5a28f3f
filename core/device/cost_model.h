// What a shard would cost on a device, without the device: the partitioner's and the simulator's view of it.
//
//   std::unique_ptr<CostModel> model = make_cpu_cost_model(profile);
//   ShardCost cost = model->cost_of({.node = &graph.node(3), .blocks = blocks, .micro_batch = 8});
//
// Pure: the same question gives the same answer on every machine. Every constant carries its origin.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

struct ShardQuestion {
  const Node* node = nullptr;
  std::span<const Block> blocks;
  std::span<const Node* const> after;  // on the owner: the layers that run after the sum
  int64_t micro_batch = 1;
  int64_t window = 1;  // micro-batches in flight
  int optimizer_slots = 0;
  Arithmetic arithmetic;
};

struct ShardCost {
  StreamingUnit unit = StreamingUnit::kSample;
  std::vector<PhaseEngine> phases;     // integer picoseconds per unit
  std::vector<NamedAmount> resources;  // as Shard::resources
  std::vector<NamedAmount> buffers;
  int64_t act_ram_bits = 0;
  double seconds_per_sample = 0;  // all phases together, as the device runs them
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string device() const = 0;  // the catalogue's short name
  virtual ShardCost cost_of(const ShardQuestion& question) const = 0;
  virtual std::vector<NamedAmount> capacities() const = 0;  // what resources may add up to
  virtual std::vector<Constant> constants() const = 0;      // with their origin
  virtual int64_t channel_quantum() const { return 1; }     // 16 for blocked CPU layouts
};

}  // namespace millrace
