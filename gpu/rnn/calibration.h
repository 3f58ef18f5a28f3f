// The performance model's constants, fitted to timings of micro-benchmarks (cuda/micro_benchmarks.h takes them on a GPU).
//
//   const Gpu constants = fit(timings, titan_v());     // what was not timed keeps the published value
//
// Pure functions; times in any unit, the same throughout.
#pragma once

#include <vector>

#include "gpu/rnn/performance_model.h"

namespace millrace::rnn {

// Time of a fixed number of dependent multiply-adds (or reductions) per thread, with so many warps per scheduler and so
// many outputs per thread.
struct Timing {
  int warps;
  int outputs;
  double time;
};

struct Timings {
  int multiprocessors = 0;
  int registers = 0;
  double multiply_adds = 0;        // of every timing of products, per output
  double cycles_per_time = 0;      // of the clock
  std::vector<Timing> products;    // one warp and one output is the baseline
  std::vector<Timing> reductions;  // exchanges within a warp in place of multiply-adds
  double exchanges = 0;            // of every timing of reductions, per output
  double l2_bytes = 0;             // read by one multiprocessor ...
  double l2_time = 0;              // ... in this time
  double l2_latency_time = 0;      // of one access, there and back
};

// Throws std::invalid_argument when the baselines are missing or a time is not positive.
Gpu fit(const Timings& timings, const Gpu& published);

}  // namespace millrace::rnn
