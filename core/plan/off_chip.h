// What weights kept off chip cost: bytes that an image moves between a board and its memory.
//
//   double bytes = off_chip_bytes_per_sample(shard, node, plan.micro_batch);
//   double seconds = bytes / off_chip_bandwidth(model.inventory());
//
// A plan that counts what happens says it of every shard, as its cost model has it for what is built: FP and EB read every weight for every
// sample, PG reads and writes its gradient once for the samples of a few micro-batches. FPDeep's accounting, which gives it for nothing,
// reckons with twice what is stored: the samples of a micro-batch share a pass over a dense layer, engines that work row by row need
// theirs once per row. Of a table that is looked up only the rows in question move, which is counted as nothing.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "core/operation/operation.h"

namespace millrace {

// Of Shard::resources.
inline constexpr std::string_view kOffChipBytesPerSample = "off_chip_bytes_per_sample";
// The same of engines that stream their weights through the chip in blocks, in words of sixteen bits.
inline constexpr std::string_view kWeightWordsPerSample = "weight_words_per_sample";

// PG of a dense layer puts the samples of so many micro-batches side by side, where the mini-batch can be divided so.
inline constexpr int64_t kMicroBatchesOfAGradientPass = 4;

inline int64_t samples_of_gradient_pass(int64_t mini_batch, int64_t micro_batch) {
  const int64_t wanted = kMicroBatchesOfAGradientPass * std::max<int64_t>(micro_batch, 1);
  return mini_batch % wanted == 0 ? wanted : 1;
}

inline double off_chip_bytes_per_sample(const Shard& shard, const Node& node, int64_t micro_batch) {
  double stored = 0;
  for (const NamedAmount& amount : shard.resources) {
    if (amount.name == kOffChipBytesPerSample) return amount.amount;
    if (amount.name == "dram_bytes") stored += amount.amount;
  }
  const Role role = role_of(node.layer.operation);
  if (role == Role::kLookUp) return 0;
  if (role == Role::kConvolution) return 2 * stored * static_cast<double>(node.output.height);
  return 2 * stored / static_cast<double>(std::max<int64_t>(micro_batch, 1));
}

// Bytes per second of a device; 0: not known.
inline double off_chip_bandwidth(std::span<const NamedAmount> amounts) {
  for (const NamedAmount& amount : amounts)
    if (amount.name == "dram_bytes_per_second") return amount.amount;
  return 0;
}

}  // namespace millrace
