// Where the pieces of a plan lie, as every reader needs it.
//
//   const Placement placement(plan, graph);
//   placement.owner_of(node);                      // the device where its output exists
//   for (const auto& [group, shard] : placement.on(device)) ..
//
// Borrows plan and graph, whose groups and shards must not change meanwhile. Answers take no walk through the plan: rings have
// thousands of devices. They mean something once the plan is validated; before that they are safe to ask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

// How many of a group's shards make its head: all but one that has what follows it alone (Shard::after).
size_t makers_of(const Plan& plan, const Group& group);

class Placement {
 public:
  struct Piece {
    int64_t group = 0, shard = 0;
  };

  // Fails with kMalformed when groups, shards and the model do not fit together.
  Placement(const Plan& plan, const Graph& graph);

  const Plan& plan() const { return *plan_; }
  const Graph& graph() const { return *graph_; }

  // The group that heads or contains a node, as an index into Plan::groups (the same order as Graph::groups).
  const Group& group_of(int64_t node) const;
  // The device where a node's finished output exists: the last of its group, of a head the last that makes it. 0 for the network's input.
  int64_t owner_of(int64_t node) const;
  int64_t first_device_of_group(int64_t group) const;
  // The last that makes its head; what follows that may be on the device behind it.
  int64_t last_device_of_group(int64_t group) const;
  // -1: the group has none there.
  int64_t shard_on(int64_t group, int64_t device) const;
  // In the order of the groups.
  std::span<const Piece> on(int64_t device) const;

  // Channels of `node`'s output that devices at or after `device` use as operands; empty when none.
  ChannelRange needed_from(int64_t node, int64_t device) const;
  // Output channels of the group's raw sum that members at or before `device` contribute to; empty when none.
  ChannelRange summed_until(int64_t group, int64_t device) const;

 private:
  // By a group's shard: what it and those behind it read, what it and those before it add to.
  struct Channels {
    ChannelRange inputs_from, outputs_until;
  };

  int64_t device_of(const Piece& piece) const { return item(plan_->shards, piece.shard).device; }
  // How many shards of the group lie before the device.
  size_t shards_before(const Group& group, int64_t device) const;

  const Plan* plan_;
  const Graph* graph_;
  std::vector<Piece> pieces_;                    // by device
  std::vector<std::vector<Channels>> channels_;  // by group
};

}  // namespace millrace
