// How much of a layer a shard is: elements, weights and multiply-accumulates of its blocks, for ONE sample.
//
//   const ShardExtent extent = shard_extent_of(question);
//   double seconds = extent.macs / rate;
//
// Of a recurrent layer the products of the inputs, x W, are divided as the blocks say; the products of the states, h U,
// belong to the owner, and one step waits for the one before it. Biases go with the weights that cannot be divided.
// Monotone: no figure grows when a block shrinks. Outputs that several blocks share count once.
#pragma once

#include "core/device/cost_model.h"

namespace millrace {

struct ShardExtent {
  double inputs = 0;   // elements read
  double outputs = 0;  // elements written; of a recurrent layer the products x W, for all gates
  double weights = 0;  // that meet those inputs; biases with them, but for a recurrent layer
  double macs = 0;     // FP; EB and PG have as many

  // Recurrent layers, on the owner only; else 0.
  double steps = 0;          // one after the other; both directions together
  double state_weights = 0;  // used again at every step
  double state_macs = 0;     // of all steps
  double gates = 0;          // values that the pointwise part makes, of all steps
  double states = 0;         // the layer's own output
  double kept = 0;           // until EB and PG are done (core/graph/recurrent_memory.h)
  double biases = 0;

  double parameters() const { return weights + state_weights + biases; }
};

ShardExtent shard_extent_of(const ShardQuestion& question);

}  // namespace millrace
