// A profile of our own: how long each layer group of a model takes on a device that is here, for `--profile` of any machine.
//
//   const std::unique_ptr<Device> device = make_cpu_device();
//   const Profile chain = measure_profile(graph, *device, {.micro_batch = 8});
//   write_atomically("chain.csv", csv_of(chain));
//
// A node is a layer that computes and the layers that run after it on the same device (Graph::groups), named after the first:
// the places where a plan may cut whole layers. Whole training steps run on random data; of each group's times forward (FP)
// and backward (EB and PG) the median over `repeats` counts, after two steps that do not. What is not a layer's work is in no
// time: reading the input, clearing and adding up errors, the weight update.
// Bytes are of one micro-batch in the device's arithmetic, without padding: out_bytes is what a later group takes of anything
// made up to here; parameters are those that are trained; activations what is held from F to G, and what layers keep for
// their backward pass (the network's input counts with the first group).
// Fails with kUsage on a model without a loss, and as the device does on layers it cannot do. Borrows everything.
#pragma once

#include <cstdint>
#include <functional>

#include "core/device/device.h"
#include "core/graph/graph.h"
#include "partitioner/profile/profile.h"

namespace millrace {

struct MeasureOptions {
  int64_t micro_batch = 32;
  int64_t repeats = 5;
  uint64_t seed = 1;
};

// `progress` hears of every step that is done, out of how many.
Profile measure_profile(const Graph& graph, Device& device, const MeasureOptions& options,
                        const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace millrace
