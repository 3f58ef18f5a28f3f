// How many cycles the generated engine takes: exact for a row in the steady state, close for whole samples.
//
//   forward_row_cycles(engine, shape);     // of one output row, in the steady state
//   const double busy = forward_macs_per_cycle(engine, shape) / peak_macs_per_cycle(engine);
//
// A row takes as long as its engine computes, output groups x input groups x max(columns, load_words + 1), or as long as its
// rows come in or go out at one beat per cycle, whichever is longest. Nothing else costs time in the steady state, which the
// RTL's simulation confirms cycle by cycle.
// engine_timing.h is the ideal behind it, which the planner uses: kernels that divide evenly over the tiles.
#pragma once

#include <cstdint>

#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"

namespace millrace {

// Of one output row.
int64_t forward_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
// Of one row of steps: stride rows of the input.
int64_t error_back_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
// Of one output row.
int64_t gradient_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);

// Of `samples` samples that follow each other, from the first beat in to the last result.
int64_t forward_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t error_back_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t gradient_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);

// Products with padding count: the engine does them.
inline double peak_macs_per_cycle(const EngineParallelism& engine) { return static_cast<double>(engine.tiles() * engine.taps()); }
// FP in the steady state; channels that do not exist are not counted.
double forward_macs_per_cycle(const EngineParallelism& engine, const ConvolutionShape& shape);

}  // namespace millrace
