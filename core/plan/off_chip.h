// What weights kept off chip cost: bytes that an image moves between a board and its memory.
//
//   double bytes = off_chip_bytes_per_sample(node, stored, micro_batch);
//   double seconds = bytes / off_chip_bandwidth(model.inventory());
//
// FP and EB read every weight, PG reads and writes its gradient: twice what is stored, which is both. The samples of a micro-batch share
// a pass over the weights of a dense layer; engines that work row by row need theirs once per row. Of a table that is looked up only the
// rows in question move, which is counted as nothing.
#pragma once

#include <algorithm>
#include <span>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/operation/operation.h"

namespace millrace {

inline double off_chip_bytes_per_sample(const Node& node, double stored_bytes, int64_t micro_batch) {
  const Role role = role_of(node.layer.operation);
  if (role == Role::kLookUp) return 0;
  if (role == Role::kConvolution) return 2 * stored_bytes * static_cast<double>(node.output.height);
  return 2 * stored_bytes / static_cast<double>(std::max<int64_t>(micro_batch, 1));
}

// Bytes per second of a device; 0: not known.
inline double off_chip_bandwidth(std::span<const NamedAmount> amounts) {
  for (const NamedAmount& amount : amounts)
    if (amount.name == "dram_bytes_per_second") return amount.amount;
  return 0;
}

}  // namespace millrace
