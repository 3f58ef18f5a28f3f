#include "transport/nccl/module/nccl_driver.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>
#include <vector>

namespace millrace {

namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(LineId));

void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) [[likely]]
    return;
  throw LineFailure(code == cudaErrorMemoryAllocation ? LineFailure::Kind::kNoMemory : LineFailure::Kind::kBroken,
                    std::string(call) + ": " + cudaGetErrorString(code));
}

void check(ncclResult_t code, const char* call, ncclComm_t communicator = nullptr) {
  if (code == ncclSuccess || code == ncclInProgress) [[likely]]
    return;
  const char* const last = ncclGetLastError(communicator);
  throw LineFailure(LineFailure::Kind::kBroken, std::string(call) + ": " + ncclGetErrorString(code) +
                                                    (last != nullptr && *last != '\0' ? std::string(": ") + last : "") +
                                                    "; NCCL_DEBUG=WARN says more");
}

class NcclEnd final : public LineEnd {
 public:
  NcclEnd(int gpu, bool sends) : gpu_(gpu), sends_(sends) {}
  ~NcclEnd() override {
    cudaSetDevice(gpu_);
    if (communicator_ != nullptr) {
      ncclResult_t state = ncclSuccess;
      const bool over = finished_ && ncclCommGetAsyncError(communicator_, &state) == ncclSuccess && state == ncclSuccess;
      if (over)
        ncclCommDestroy(communicator_);
      else
        ncclCommAbort(communicator_);
    }
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Apart from the constructor, so that a failure leaves nothing behind.
  void join(const LineId& bytes) {
    use();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    ncclUniqueId id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    call_ = "ncclCommInitRankConfig";
    check(ncclCommInitRankConfig(&communicator_, 2, id, sends_ ? 0 : 1, &config), call_);
  }

  bool settled() override {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError", communicator_);
    check(state, call_, communicator_);
    return state != ncclInProgress;
  }
  void transfer(std::byte* payload, size_t bytes) override {
    use();
    call_ = sends_ ? "ncclSend" : "ncclRecv";
    check(sends_ ? ncclSend(payload, bytes, ncclInt8, 1, communicator_, stream_)
                 : ncclRecv(payload, bytes, ncclInt8, 0, communicator_, stream_),
          call_, communicator_);
  }
  void finish() override {
    call_ = "ncclCommFinalize";
    check(ncclCommFinalize(communicator_), call_, communicator_);
    finished_ = true;
  }

  int make_event() override {
    use();
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    events_.push_back(event);
    return static_cast<int>(events_.size()) - 1;
  }
  void record(int event) override { record_on(stream_, event); }
  void record_on(void* queue, int event) override {
    use();
    check(cudaEventRecord(at(event), static_cast<cudaStream_t>(queue)), "cudaEventRecord");
  }
  void wait(int event) override {
    use();
    check(cudaStreamWaitEvent(stream_, at(event), 0), "cudaStreamWaitEvent");
  }
  bool done(int event) override {
    const cudaError_t state = cudaEventQuery(at(event));
    if (state == cudaErrorNotReady) return false;
    check(state, "cudaEventQuery");
    return true;
  }

 private:
  // Several GPUs may share a thread.
  void use() { check(cudaSetDevice(gpu_), "cudaSetDevice"); }
  cudaEvent_t at(int event) const { return events_[static_cast<size_t>(event)]; }

  int gpu_;
  bool sends_;
  bool finished_ = false;
  const char* call_ = "";
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;
};

class NcclDriver final : public LineDriver {
 public:
  std::string version() override {
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." + std::to_string(version % 100);
  }
  LineId make_id() override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    LineId bytes;
    std::memcpy(bytes.data(), &id, sizeof(id));
    return bytes;
  }
  std::unique_ptr<LineEnd> join(int gpu, const LineId& id, bool sends) override {
    auto end = std::make_unique<NcclEnd>(gpu, sends);
    end->join(id);
    return end;
  }
  std::byte* allocate(int gpu, size_t bytes) override {
    check(cudaSetDevice(gpu), "cudaSetDevice");
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return static_cast<std::byte*>(memory);
  }
  void release(int gpu, std::byte* memory) noexcept override {
    cudaSetDevice(gpu);
    cudaFree(memory);
  }
};

}  // namespace

}  // namespace millrace

millrace::LineDriver* millrace_nccl_driver() { return new millrace::NcclDriver; }
