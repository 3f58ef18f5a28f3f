// A GPU as a machine for recurrent layers.
//
//   const std::unique_ptr<CudaMachine> gpu = cuda_machine(0);     // throws RnnError: no GPU, wrong architecture
//   RnnLayer layer(*gpu, shape);  layer.forward();  gpu->finish();
//
// Matrix products go to cuBLAS where it can be loaded (plain fp32, no TF32), else to a kernel of ours. Persistent kernels
// are launched cooperatively: the GPU refuses them rather than run a part of their blocks. Never linked against the
// driver's library: a program with this in it starts on machines without a GPU. One thread; owns a stream and its memory.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "gpu/rnn/machine.h"

namespace millrace::rnn {

// Throws the failure that a code of the CUDA runtime stands for.
void require(cudaError_t code, const char* doing);

class CudaMachine : public Machine {
 public:
  // Kernels compiled at run time join the table.
  virtual void add_kernel(const Kernel& kernel) = 0;
  virtual cudaStream_t stream() const = 0;
  virtual bool has_cublas() const = 0;
  virtual int architecture() const = 0;  // 90 for compute capability 9.0
};

std::unique_ptr<CudaMachine> cuda_machine(int device);

}  // namespace millrace::rnn
