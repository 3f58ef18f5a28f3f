// Internal to gpu/rnn: cuBLAS, loaded when the program runs, so that nothing needs it to build or to start.
//
//   const std::unique_ptr<Cublas> cublas = load_cublas(stream);     // none when there is no such library
//   if (!cublas || !cublas->multiply(job, precision)) launch_multiply(job, precision, stream);
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

class Cublas {
 public:
  virtual ~Cublas() = default;
  // False when the job's strides are not a matrix of the library's, or it refuses.
  virtual bool multiply(const MatrixJob& job, Precision precision) = 0;
};

std::unique_ptr<Cublas> load_cublas(cudaStream_t stream);

// The first of the libraries that can be loaded, for good; null when none can.
void* load_library(std::initializer_list<const char*> names);

}  // namespace millrace::rnn
