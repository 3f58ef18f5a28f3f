// Internal to gpu/rnn: cuBLAS, loaded when the program runs, so that nothing needs it to build or to start.
//
//   const std::unique_ptr<Cublas> cublas = load_cublas(stream);     // none when there is no such library
//   if (!cublas || !cublas->multiply(job, precision)) launch_multiply(job, precision, stream);
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

class Cublas {
 public:
  virtual ~Cublas() = default;
  // False when the job's strides are not a matrix of the library's, or it refuses.
  virtual bool multiply(const MatrixJob& job, Precision precision) = 0;
};

std::unique_ptr<Cublas> load_cublas(cudaStream_t stream);

// A library of CUDA's, for good; null when it cannot be loaded. That of the major version this was built with comes first:
// what a later one makes may not load under this one's driver.
void* load_library_of_cuda(const std::string& name);
// lib<name>.so.<major>, else lib<name>.so.
void* load_library(const std::string& name, int major);

}  // namespace millrace::rnn
