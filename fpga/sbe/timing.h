// Cycles and words of a batch on the engine of blocked columns, in the steady state.
//
//   const BatchTiming timing = batch_timing(config);
//   config.vectors() / timing.cycles * clock_hz;     // steps a second
//   timing.words;                                    // that cross the memory's bus for a batch
//
// THE MODEL is batch_timing: a recurrence over the slots. The transfer of a block begins when its slot is free and the transfer before
// is over; a job begins when its blocks are there and the job before is done, and frees its slots at its end. A job is a block of x
// applied to all vectors, or the walk over the blocks of h, in which a step may wait for the step before (step_stall.h).
// Three cases, by how many blocks m hold columns of h:
//   1    the last block stays while the steps are walked
//   2    both stay, and nothing is loaded meanwhile (with more slots: as many as leave one free)
//   more the blocks of h are loaded again for every step, once for all streams
// closed_batch_cycles explains it for two slots and equal blocks without x and h on the bus, where it is exact:
//   tc = S K G n, tt = n k R / Nt;  m = 1: (X+1) max + K d behind the load;  m = 2: (X+2) max + 2 min + K d;  m > 2: X max + K m max
// Cycles of a transfer are whole beats. Where the tail does not keep up, `tail_keeps_up` is false and the cycles are too few.
#pragma once

#include <cstdint>

#include "fpga/sbe/engine_config.h"

namespace millrace {

struct BatchTiming {
  double cycles = 0;          // from batch to batch
  double first_cycles = 0;    // of the first batch: nothing is loaded ahead
  int64_t words = 0;          // of weights, inputs and outputs over the bus, for a batch
  int64_t weight_words = 0;   // of these
  int64_t hidden_blocks = 0;  // m
  int64_t stall = 0;          // d, cycles of each step
  bool tail_keeps_up = true;

  int64_t paper_case() const { return hidden_blocks < 3 ? hidden_blocks : 3; }
};

BatchTiming batch_timing(const SbeConfig& config);
// No batch is done in fewer cycles, and none moves other words: the multipliers' work and the bus's.
BatchTiming batch_bound(const SbeConfig& config);
double closed_batch_cycles(const SbeConfig& config);

}  // namespace millrace
