#include "fpga/cost/shard_use.h"

namespace millrace {

Engines engines_of(const ShardGeometry& shard, double cycles_per_sample) {
  Engines engines;
  if (!shard.has_engine()) return engines;
  engines.forward = engine_for(shard.forward, cycles_per_sample);
  engines.count = 1;
  if (shard.error_comes) {
    engines.error_back = shard.error_back == shard.forward ? engines.forward : engine_for(shard.error_back, cycles_per_sample);
    ++engines.count;
  }
  if (shard.trained) {
    engines.parameter_gradient = engines.forward;
    ++engines.count;
  }
  return engines;
}

int64_t tile_of(const ShardUse& use) { return use.built ? use.built->held.kernel_h * use.built->held.kernel_w : use.shard.tile; }

std::vector<NamedAmount> buffers_of(const ShardUse& use) {
  std::vector<NamedAmount> named;
  const ShardBuffers& buffers = use.buffers;
  const auto add = [&](const char* name, double bits) {
    if (bits > 0) named.push_back({name, bits});
  };
  add(use.act_ram_outside ? "act_ram_outside" : "act_ram", buffers.act_ram.bits);
  add("state", buffers.state.bits);
  add("error_line", buffers.error_line.bits);
  add("partial", buffers.partial.bits);
  add("accumulators", buffers.accumulators.bits);
  add("kept", buffers.kept.bits);
  add("lines", buffers.lines.bits);
  add("vectors", buffers.vectors.bits);
  add("weight_stream", buffers.weight_stream.bits);
  const double weights = (buffers.parameter_bits + buffers.stationary.bits) / use.settings.copies;
  add("lpram", weights);
  if (use.settings.copies > 1) add("lgb", weights);
  if (use.settings.copies > 2) add("optimizer", weights * (use.settings.copies - 2));
  return named;
}

}  // namespace millrace
