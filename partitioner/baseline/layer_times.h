// How long a device takes for a layer, or a share of its channels, when it does nothing else. Internal to partitioner/baseline.
//
//   const LayerTimes times(graph, chain);
//   double seconds = times.seconds(model, group, blocks, micro_batch, options);       // per sample, FP + EB + PG
//
// Devices whose shards take turns say it themselves. Of devices with engines it is the least period in which engines for
// all three phases side by side fill the device: the same multipliers take the phases one after the other in as long.
// That engine serves all layers, and is not reconfigured between them (FPDeep's section 1 offers the choice "suboptimally
// configured, or reconfigured repeatedly"; it does not say what reconfiguring costs). Its tiles have the kernel of one of
// the model's convolutions, the one that serves all layers best; a layer with another kernel takes as many tiles as cover
// it, and fills them in part: a fully connected layer one multiplier of each.
// Borrows graph and chain. Immutable, thread safe.
#pragma once

#include <cstdint>

#include "partitioner/hybrid/chain.h"
#include "partitioner/planning/planning.h"

namespace millrace {

class LayerTimes {
 public:
  explicit LayerTimes(const Chain& chain);

  // Infinity when no engine for the layer fits the device.
  double seconds(const CostModel& model, int64_t group, const BlockList& blocks, int64_t micro_batch, const PlanOptions& options) const;
  // Multipliers that the shared engine takes per multiplier that an engine of the layer's own would, at least 1 for the
  // kernel it is made for.
  double tile_waste(int64_t group) const;

 private:
  struct Kernel {
    int64_t height = 1;
    int64_t width = 1;
  };
  static Kernel kernel_of(const Node& head);
  double waste(const Kernel& tile, int64_t group) const;

  const Chain* chain_;
  Kernel tile_;
};

}  // namespace millrace
