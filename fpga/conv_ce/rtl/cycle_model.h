// How many cycles the generated engine takes: exact for a row in the steady state, close for whole samples.
//
//   forward_row_cycles(engine, shape);     // of one output row, in the steady state
//   forward_cycles(engine, shape, 3);      // of three samples, from the first beat in to the last result
//
// A row takes as long as its engine computes, output groups x input groups x max(columns, load_words + 1), or as long as its
// rows come in or go out at one beat per cycle, whichever is longest. Nothing else costs time in the steady state, which the
// RTL's simulation confirms cycle by cycle.
// engine_timing.h is the ideal behind it, which the planner uses: kernels that divide evenly over the tiles.
#pragma once

#include <cstdint>

#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"
#include "fpga/conv_ce/rtl/engine_parameters.h"
#include "fpga/conv_ce/rtl/memory_layout.h"

namespace millrace {

// Of one output row.
int64_t forward_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
// Of one row of steps: stride rows of the input.
int64_t error_back_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
// Of one output row.
int64_t gradient_row_cycles(const EngineParallelism& engine, const ConvolutionShape& shape);
// What of an engine and a shape a row's cycles follow from, for whoever asks of many engines and divides once.
struct EngineSweeps {
  int64_t input_groups = 1, output_groups = 1;
  int64_t input_sweeps = 1;  // of every group of outputs
  int64_t load_words = 1;
  int64_t stride = 1;
};
EngineSweeps sweeps_of(const EngineParallelism& engine, const ConvolutionShape& shape);
// FP's, of one group of inputs for one of outputs; no row takes less than its sweeps.
int64_t forward_sweep_cycles(int64_t load_words, int64_t columns);
int64_t forward_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, int64_t columns);
int64_t error_back_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, const ErrorBackSteps& steps, int64_t columns);
int64_t gradient_row_cycles(const EngineSweeps& sweeps, const ConvolutionShape& shape, int64_t columns);

// Of `samples` samples that follow each other, from the first beat in to the last result.
int64_t forward_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t error_back_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t gradient_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
// What one sample more takes after so many.
int64_t forward_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t error_back_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);
int64_t gradient_cycles_of_next(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t samples);

// Pooling, of one row of windows, and un-pooling, of the stride rows that a step of it gives, in the steady state: as long as
// rows come in or go out at a beat per cycle, or as windows take one cycle each. Large windows that overlap take a cycle more in every row
// of the map for each that ends with it but one, and on the way back for each that begins before it.
int64_t pooling_row_cycles(const PoolingWindow& window, int64_t groups);
int64_t unpooling_row_cycles(const PoolingWindow& window, int64_t groups);
// Of a sample in the steady state. Rows of windows that begin outside the map cost as much as any.
int64_t pooling_cycles(const PoolingWindow& window, int64_t groups);
int64_t unpooling_cycles(const PoolingWindow& window, int64_t groups);

// Dropout, whose one generator makes blocks of draws for a lane after the other: of a sample in the steady state, exactly.
int64_t dropout_cycles(const BeatOrder& order);

// The row sorter, which takes blocks as `order` says and sends rows, at a beat per cycle both: it makes no engine slower, and
// what it costs is that a row waits for its block. Of one row; and of `samples` samples, as above, to the cycle.
int64_t sorter_row_cycles(const BeatOrder& order);
int64_t sorter_cycles(const BeatOrder& order, const SorterMemory& memory, int64_t samples);

// The adapter between streams of unequal width: a beat per cycle in and out, so a row takes as long as the narrower stream's; of `samples`
// samples, from the first beat in to the last one out, to the cycle. `in`: the stream that comes.
int64_t adapter_cycles(const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory, int64_t samples);
// What one sample more takes after so many.
int64_t adapter_cycles_of_next(const BeatOrder& in, int64_t out_lanes, const AdapterMemory& memory, int64_t samples);

}  // namespace millrace
