// Sixteen-bit formats from how large the numbers of a network get.
//
//   const LayerFormats formats = chosen_formats(graph, ranges, /*error_scale=*/1.0 / plan.mini_batch, {});
//
// Numbers that meet without a multiplication share a format: an output, what activations, pooling, normalisation, joins and
// concatenation make of it, and the inputs of the layers behind. So there is one format for activations and one for errors
// between two layers that multiply, and one per weight.
// Each is the finest that still holds `headroom` times the largest number seen, then made coarser until
//   - no accumulator wraps within that headroom, of FP, EB, or of a mini-batch's gradient,
//   - every result is lowered by 0 to 31 bits, as the engine does.
// Recurrent layers: x and h have formats of their own, h's at most 15 fraction bits, and accumulators reach 16 at least; their errors go
// back on the host and bind nothing. What was never seen (a frozen layer's errors) keeps the engine's own format. A pure function: the same
// numbers, the same formats, however many ranks there are.
#pragma once

#include "core/graph/graph.h"
#include "fpga/calibration/measuring_device.h"
#include "fpga/conv_ce/arithmetic/engine_formats.h"

namespace millrace {

// How much larger numbers may become in a training than its first updates show. Twice as much costs a bit of precision, which
// networks feel sooner than a few numbers that saturate.
struct FormatHeadroom {
  double activation = 2;
  double weight = 4;
  double error = 4;
};

// Of every layer but the loss.
LayerFormats chosen_formats(const Graph& graph, const NumberRanges& ranges, double error_scale, const FormatHeadroom& headroom);

}  // namespace millrace
