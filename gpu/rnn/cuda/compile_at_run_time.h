// Kernels that are not shipped, compiled for the GPU at hand when they are wanted, by CUDA's run-time compiler (NVRTC),
// from the same sources, which are inside the program.
//
//   const CompiledKernel compiled = compile_at_run_time(shape, 90);        // no GPU needed; throws RnnError
//   const void* entry = load_compiled(compiled);                            // for a launch, on the current GPU
//   for (const Kernel& kernel : kernels_for_run_time()) gpu.add_kernel(kernel);   // candidates, compiled when first run
//
// The library is loaded when first needed and never linked: without it kMissingPart says so.
#pragma once

#include <vector>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

struct CompiledKernel {
  std::string name;  // of the entry in the code
  std::vector<char> code;
};

CompiledKernel compile_at_run_time(const KernelShape& shape, int architecture);

// Whether this build's CUDA runtime can load code: from CUDA 12.8 on. Before, the shipped kernels are all there are.
bool can_load_compiled();
// Stays loaded as long as the program runs.
const void* load_compiled(const CompiledKernel& compiled);

// FMA tiles between the shipped ones that a thread's registers hold, for every recurrence, without code yet; none
// where compiled code cannot be loaded.
std::vector<Kernel> kernels_for_run_time();

}  // namespace millrace::rnn
