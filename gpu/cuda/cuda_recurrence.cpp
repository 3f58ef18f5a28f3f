#include "gpu/cuda/cuda_recurrence.h"

#include <string>

#include "gpu/rnn/cuda/cuda_machine.h"

namespace millrace::gpu {

namespace {

// Persistent kernels start when all their blocks find room: beside a transfer between GPUs that waits for its other end, and holds
// multiprocessors as long, they would never. 128 of an H200's 132 still hold an LSTM of 1024 in registers.
constexpr int kSpareMultiprocessors = 4;

void check(cudaError_t code, const char* doing) {
  if (code != cudaSuccess)
    throw Failure(Failure::Kind::kBroken, std::string("recurrent layers on the GPU: ") + doing + ": " + cudaGetErrorString(code));
}

}  // namespace

CudaRecurrences::CudaRecurrences(int device, cudaStream_t stream) : stream_(stream) {
  try {
    machine_ = rnn::cuda_machine(device, {.stream = stream, .spare_multiprocessors = kSpareMultiprocessors});
  } catch (const rnn::RnnError& error) {
    throw Failure(Failure::Kind::kBroken, std::string("recurrent layers on the GPU: ") + error.what());
  }
  runner_ = std::make_unique<RecurrenceRunner>(*machine_);
  gpu::check(cudaMallocHost(reinterpret_cast<void**>(&hung_), sizeof(*hung_)), "taking pinned memory");
  *hung_ = 0;
}

CudaRecurrences::~CudaRecurrences() {
  runner_.reset();
  machine_.reset();
  if (hung_ != nullptr) cudaFreeHost(hung_);
}

void CudaRecurrences::run(const Recurrence& call) {
  runner_->run(call);
  gpu::check(cudaMemcpyAsync(hung_, runner_->hung(), sizeof(*hung_), cudaMemcpyDeviceToHost, stream_), "asking whether it hung");
}

void CudaRecurrences::check() const {
  if (const unsigned hung = *static_cast<const volatile unsigned*>(hung_); hung != 0) throw hung_recurrence(hung);
}

}  // namespace millrace::gpu
