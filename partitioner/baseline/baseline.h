// What FPDeep is compared with: data and model parallelism, as closed forms with the same answer as a planner's.
//
//   Outcome outcome = plan_data(task);       // or plan_model(task); outcome.plan stays empty: no ring of segments says it
//
// Both run layer after layer in batch mode, as FPDeep describes them (sections 1, 2.2 and 3.3): a micro-batch finishes one
// layer before the next begins, so the whole device works on one layer at a time and keeps every activation until the way
// back. D devices, mini-batch B, wire bits b, P trained parameters; for layer l: I and O the elements of its input and raw
// sum, t the seconds per sample that layer_times.h gives for what one device holds of it.
//
// Communication is the textbook ring all-reduce: D - 1 steps that add up and D - 1 that pass the sum on, every device sending
// to its successor. So V elements put 2 (D-1)/D V b bits on each link, forward, and an all-gather half of that. The ring is
// closed by a link as slow as the slowest; nothing else moves meanwhile, and computing waits.
//
// Data parallelism: each device takes s = ceil(B/D) samples through the whole network.
//   step      = max over devices of s * sum(t)  +  all-reduce of P elements
//   storage   = D * (parameters, gradients, optimizer state)  +  activations of the micro-batch on every device
//   moved     = 2 (D-1) P b per mini-batch
//   needs       D <= B
// Model parallelism: each device holds ceil(C/D) of the C channels of every layer: input channels, as in ICP; output
// channels where the image has too few.
//   step      = sum over l of max over devices of B * t
//             + sum over l of B samples of: all-reduce of O, all-gather of the input's error I   (input channels)
//                                           all-gather of O, all-reduce of the input's error I   (output channels)
//   storage   = parameters, gradients, state once  +  all activations of the micro-batch on every one of the D devices
//   moved     = D times what is on a link
//   needs       D <= the fewest channels of any layer
// FPDeep's section 3.3 lets model parallelism copy all parameters to every device too, its section 2.2 shares them out; here
// they are shared out.
// A mini-batch takes B/step images per second. Off-chip memory is fast enough for activations by two orders of magnitude on
// the boards of the catalogue and is not counted in time; where everything fits is checked (on-chip and off-chip together).
//
// Without options.micro_batch: all of a device's samples at once, halved until they fit.
// Figures per link are averages over a mini-batch; devices have no shards. Fails with kUsage as planners do.
#pragma once

#include "partitioner/planning/planning.h"

namespace millrace {

Outcome plan_data(const PlanTask& task);
Outcome plan_model(const PlanTask& task);

}  // namespace millrace
