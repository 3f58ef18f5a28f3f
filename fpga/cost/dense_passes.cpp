#include "fpga/cost/dense_passes.h"

#include <algorithm>

namespace millrace {

namespace {

constexpr double kShareOfMemory = 0.125;  // of a board's, that the steps of a pass may take: projected

double bits_of(int64_t steps, int64_t channels, int64_t element_bits) { return static_cast<double>(2 * steps * channels * element_bits); }

}  // namespace

int64_t steps_of_dense_pass(const ShardGeometry& shard, int64_t asked, int64_t element_bits, double on_chip_bits) {
  if (shard.place != WeightPlace::kOffChip || !shard.has_engine() || shard.unit != StreamingUnit::kStep) return 1;
  const int64_t all = shard.output.height, channels = shard.layer_inputs + shard.layer_outputs;
  for (int64_t steps = asked > 0 ? std::min(asked, all) : all; steps > 1; --steps)
    if (all % steps == 0 && bits_of(steps, channels, element_bits) <= kShareOfMemory * on_chip_bits) return steps;
  return 1;
}

double bits_of_dense_pass(const ShardGeometry& shard, int64_t steps, int64_t element_bits) {
  return steps > 1 ? bits_of(steps, shard.inputs + shard.outputs, element_bits) : 0;
}

}  // namespace millrace
