// Marks a function that also runs on a GPU when the CUDA compiler reads it; nothing to any other compiler.
//
//   struct Twice { MILLRACE_HOST_DEVICE float operator()(float x) const { return 2 * x; } };
#pragma once

#if defined(__CUDACC__)
#define MILLRACE_HOST_DEVICE __host__ __device__
#else
#define MILLRACE_HOST_DEVICE
#endif
