// Opens the GPUs of this machine: finds the module that drives them (gpu/cuda) and loads it when it is first asked for, so that nothing
// here needs a driver or CUDA's libraries to start.
//
//   const GpuCount gpus = count_gpus();
//   if (gpus.count > 0) device = make_gpu_device(open_gpu_engine(0));
//   else log::info("no GPU: {}", gpus.reason);
//
// The module is libmillrace_cuda.so: beside the program, in ../lib/millrace, or where this build installs it. Loaded once, never
// unloaded, and not at all where NVIDIA's driver is missing. Thread safe.
#pragma once

#include <memory>
#include <string>

#include "gpu/device/engine.h"

namespace millrace {

struct GpuCount {
  int count = 0;
  std::string reason;  // why there is none
};

// Never fails: whatever is wrong is the reason.
GpuCount count_gpus();

// Fails with kUnavailable, saying what is missing and what to do: no driver, no module, a library that it needs, no GPU, no GPU of that
// number, a GPU that is too old.
std::unique_ptr<gpu::Engine> open_gpu_engine(int device);

}  // namespace millrace
