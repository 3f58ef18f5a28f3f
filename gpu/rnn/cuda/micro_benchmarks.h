// Timings on the GPU at hand, to which the performance model's constants are fitted (calibration.h).
//
//   const Gpu constants = fit(micro_benchmarks(*gpu), titan_v());
//
// A second or less. Takes the GPU for itself: run nothing beside it.
#pragma once

#include "gpu/rnn/calibration.h"
#include "gpu/rnn/cuda/cuda_machine.h"

namespace millrace::rnn {

Timings micro_benchmarks(CudaMachine& gpu);

}  // namespace millrace::rnn
