// Convolutions by cuDNN: descriptors kept per shape, algorithms that are deterministic and fit; plain loops where there is none.
// Internal to gpu/cuda.
//
// fp32 is FMA arithmetic: TF32 only when the precision says so. Sixteen-bit operands multiply on tensor cores and add in fp32; they are
// wanted with channels last, as tensor cores take them, where cuDNN has a deterministic algorithm for that.
#pragma once

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <map>
#include <memory>
#include <string>

#include "gpu/device/engine.h"

namespace millrace::gpu {

class CudaConvolutions {
 public:
  // Borrows both; the stream is the handle's.
  CudaConvolutions(cudnnHandle_t handle, cudaStream_t stream);
  ~CudaConvolutions();
  CudaConvolutions(const CudaConvolutions&) = delete;
  CudaConvolutions& operator=(const CudaConvolutions&) = delete;

  ConvolutionChoice choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision, size_t most_workspace,
                           bool measure);
  void run(const Convolution& call);

 private:
  struct Descriptors;
  Descriptors& descriptors(const ConvolutionGeometry& geometry, Precision precision, bool channels_last);
  ConvolutionChoice choose_in(bool channels_last, const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision,
                              size_t most_workspace, bool measure);

  // Whether it really runs, with channels last, on memory of its own.
  bool takes(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision, int64_t algorithm, size_t workspace);
  cudnnStatus_t queue(const Convolution& call);

  cudnnHandle_t handle_;
  cudaStream_t stream_;
  std::map<std::string, std::unique_ptr<Descriptors>> known_;
};

}  // namespace millrace::gpu
