// The engine of gpu/device on an NVIDIA GPU, through CUDA, cuDNN and cuBLAS. It lives in a module of its own, libmillrace_cuda.so, so
// that programs start at once, and start at all, on machines without a driver or those libraries. What opens it: gpu/device/gpu_module.h.
//
//   gpu::Engine* engine = millrace_cuda_engine(0);        // exported by the module; the caller deletes it
//
// The first GPU is 0. Throws gpu::Failure: kNoDevice whatever cudaGetDeviceCount complains of, kWrongArchitecture for a GPU older than
// compute capability 8.0, kMissingLibrary when cuDNN or cuBLAS does not start, kBroken for what goes wrong later.
#pragma once

#include "gpu/device/engine.h"

extern "C" {
millrace::gpu::Engine* millrace_cuda_engine(int device);
// How many GPUs there are; none, and why, when `reason` gets text.
int millrace_cuda_devices(char* reason, int reason_size);
}
