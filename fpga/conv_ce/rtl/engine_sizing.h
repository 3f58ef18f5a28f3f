// How many lanes an engine gets: the one function that sizes it, for whoever plans, generates or simulates it.
//
//   const EngineParallelism engine = *smallest_engine(shape, /*cycles_per_sample=*/1'018'000);    // 4 x 29 lanes
//   sample_cycles(engine, shape);                                                                // at most 1,018,000
//
// An engine is a rectangle of input and output lanes, the same for FP, EB and PG of a shard: a sweep serves all lanes at once, so lanes
// that do not divide the channels evenly stand still in the last group of them. Of all rectangles the smallest that keeps up is
// taken, of those the one whose streams are narrowest, then the one with fewer output lanes.
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

// No engine is wider: what reads and writes as many channels at once grows with their square.
inline constexpr int64_t kMostEngineLanes = 64;

// With as many kernels per word as its sweeps need.
EngineParallelism engine_of(const ConvolutionShape& shape, int64_t input_lanes, int64_t output_lanes);

// Of a sample in the steady state, FP, EB and PG side by side: the slowest of them. Streams are not part of it.
int64_t sample_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);

// Nothing where none of them keeps up.
std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample);
// Of at most so many multipliers, and of one tile at least.
EngineParallelism fastest_engine(const ConvolutionShape& shape, int64_t multipliers);

}  // namespace millrace
