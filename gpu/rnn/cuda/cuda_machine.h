// A GPU as a machine for recurrent layers.
//
//   const std::unique_ptr<CudaMachine> gpu = cuda_machine(0);     // throws RnnError: no GPU, wrong architecture
//   RnnLayer layer(*gpu, shape);  layer.forward();  gpu->finish();
//
// Matrix products go to cuBLAS where it can be loaded (plain fp32, no TF32), else to a kernel of ours. Persistent kernels
// are launched cooperatively: the GPU refuses them rather than run a part of their blocks. Never linked against the
// driver's library: a program with this in it starts on machines without a GPU. One thread; owns its memory, and its stream unless
// it was given one.
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

struct CudaMachineOptions {
  cudaStream_t stream = nullptr;  // the caller's, which outlives the machine: work takes its turn there; none: one of its own
  int spare_multiprocessors = 0;  // that persistent kernels leave to kernels of others, which may wait beside them
};
std::unique_ptr<CudaMachine> cuda_machine(int device, const CudaMachineOptions& options = {});

}  // namespace millrace::rnn
