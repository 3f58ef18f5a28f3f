// Recurrences by the kernels of gpu/rnn, on the engine's stream. Internal to gpu/cuda.
//
// What hangs leaves a number in the GPU's memory, which is copied to the host behind every call: check(), when the stream was waited for.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "gpu/recurrence/recurrence_runner.h"

namespace millrace::gpu {

class CudaRecurrences {
 public:
  // Borrows the stream.
  CudaRecurrences(int device, cudaStream_t stream);
  ~CudaRecurrences();
  CudaRecurrences(const CudaRecurrences&) = delete;
  CudaRecurrences& operator=(const CudaRecurrences&) = delete;

  RecurrenceChoice choose(const RecurrenceGeometry& geometry) { return runner_->choose(geometry); }
  void run(const Recurrence& call);
  void check() const;

 private:
  cudaStream_t stream_;
  std::unique_ptr<rnn::Machine> machine_;
  std::unique_ptr<RecurrenceRunner> runner_;
  unsigned* hung_ = nullptr;  // pinned
};

}  // namespace millrace::gpu
