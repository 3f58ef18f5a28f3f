#include "fpga/recurrence/stationary_geometry.h"

#include <variant>

namespace millrace {

namespace {

// Gate values, cell states and outputs of one direction, per hidden unit: what back-propagation through time reads.
int64_t kept_per_hidden_unit(CellKind cell) {
  switch (cell) {
    case CellKind::kLstm: return 6;  // four gates, c, h
    case CellKind::kGru: return 5;   // two gates, the candidate, its recurrent product, h
    case CellKind::kVanillaRelu:
    case CellKind::kVanillaTanh: return 1;  // h
  }
  return 1;
}

}  // namespace

ShardGeometry stationary_geometry(const Node& node, std::span<const Block> blocks, bool owner) {
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  ShardGeometry shard = geometry_without_engine(node);
  set_channels(shard, blocks, 0);
  const int64_t steps = shard.output.height;
  const int64_t all_weights = node.work.forward_macs / steps;
  shard.place = WeightPlace::kStationary;
  shard.unit = StreamingUnit::kStep;
  if (owner) {
    shard.kernels += all_weights - shard.layer_inputs * shard.layer_outputs;
    shard.vectors = node.work.parameters - all_weights;
    shard.state = cell.directions() * (kept_per_hidden_unit(cell.cell) * cell.hidden + cell.projection);
  }
  shard.weights = shard.kernels;
  shard.forward = shard.error_back = {steps, shard.kernels};
  return shard;
}

}  // namespace millrace
