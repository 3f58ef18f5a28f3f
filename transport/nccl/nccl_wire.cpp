#include "transport/nccl/nccl_wire.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));

constexpr Nanoseconds kLeaveWithin = 1s;

// `what` says who is at the other end, or what it was for.
void check_cuda(cudaError_t code, std::string_view call, std::string_view what) {
  if (code == cudaSuccess) [[likely]]
    return;
  fail(code == cudaErrorMemoryAllocation ? ErrorCode::kUnavailable : ErrorCode::kIo, "{}: {}: {}", what, call, cudaGetErrorString(code));
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags", "making a GPU's event"); }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// One end of a line: a communicator of two, whose rank 0 sends, and its stream.
class NcclQueue final : public TransferQueue {
 public:
  NcclQueue(const LineName& name, const NcclNeighbours& neighbours)
      : name_(name), what_(text_of(name)), neighbours_(neighbours), opened_(machine_clock().now()) {}
  ~NcclQueue() override {
    cudaSetDevice(neighbours_.device);
    if (communicator_ != nullptr) {
      if (leaving_ && has_left(machine_clock().now() + kLeaveWithin))
        ncclCommDestroy(communicator_);
      else
        ncclCommAbort(communicator_);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  // Apart from the constructor, so that an error leaves nothing behind.
  void begin() {
    use_device();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    if (!name_.outgoing) return;
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    NcclId bytes;
    std::memcpy(bytes.data(), &id, sizeof(id));
    neighbours_.tell(name_, bytes);
    join(bytes);
  }

  bool can_launch() override {
    switch (state_) {
      case State::kNoId: {
        const std::optional<NcclId> id = neighbours_.ask(name_);
        if (id)
          join(*id);
        else
          check_deadline("its id has not come");
        return false;
      }
      case State::kJoining:
        if (settled("ncclCommInitRankConfig"))
          state_ = State::kReady;
        else
          check_deadline("ncclCommInitRankConfig has not finished");
        return state_ == State::kReady;
      case State::kReady: return !launching_ || finish_launch();
    }
    return false;
  }

  void launch(const Transfer& transfer) override {
    MILLRACE_CHECK(state_ == State::kReady && !launching_, "{}: launched too early", what_);
    use_device();
    if (const auto used = used_.find(transfer.payload); used != used_.end())
      check(cudaStreamWaitEvent(stream_, used->second.get(), 0), "cudaStreamWaitEvent");
    launching_ = true;
    if (transfer.bytes > 0) {  // both ends know it, and leave empty ones out
      if (name_.outgoing)
        check(ncclSend(transfer.payload, transfer.bytes, ncclInt8, 1, communicator_, stream_), "ncclSend");
      else
        check(ncclRecv(transfer.payload, transfer.bytes, ncclInt8, 0, communicator_, stream_), "ncclRecv");
    }
    finish_launch();
  }

  bool take_finished() override {
    if (launching_) finish_launch();
    if (running_.empty()) return false;
    const cudaError_t state = cudaEventQuery(running_.front().get());
    if (state == cudaErrorNotReady) {
      settled("ncclCommGetAsyncError");  // a peer that died leaves the GPU waiting: only NCCL knows
      return false;
    }
    check(state, "cudaEventQuery");
    spare_.push_back(std::move(running_.front()));
    running_.pop_front();
    return true;
  }

  void in_use(std::byte* payload) override {
    use_device();
    check(cudaEventRecord(used_[payload].get(), static_cast<cudaStream_t>(neighbours_.compute)), "cudaEventRecord");
  }

  void leave() noexcept override {
    if (broken_ || state_ != State::kReady || launching_ || !running_.empty() || std::uncaught_exceptions() > 0) return;
    const ncclResult_t code = ncclCommFinalize(communicator_);
    leaving_ = code == ncclSuccess || code == ncclInProgress;
  }

 private:
  enum class State : uint8_t { kNoId, kJoining, kReady };

  void use_device() { check(cudaSetDevice(neighbours_.device), "cudaSetDevice"); }

  void join(const NcclId& bytes) {
    use_device();
    ncclUniqueId id;
    std::memcpy(&id, bytes.data(), sizeof(id));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&communicator_, 2, id, name_.outgoing ? 0 : 1, &config), "ncclCommInitRankConfig");
    state_ = State::kJoining;
  }

  // What was asked of the communicator has been done.
  bool settled(std::string_view call) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
    check(state, call);
    return state != ncclInProgress;
  }
  // The last transfer is on the stream: only now may an event follow it there.
  bool finish_launch() {
    if (!settled(name_.outgoing ? "ncclSend" : "ncclRecv")) return false;
    use_device();
    if (spare_.empty()) spare_.emplace_back();
    check(cudaEventRecord(spare_.back().get(), stream_), "cudaEventRecord");
    running_.push_back(std::move(spare_.back()));
    spare_.pop_back();
    launching_ = false;
    return true;
  }
  bool has_left(Instant until) noexcept {
    for (;;) {
      ncclResult_t state = ncclSuccess;
      if (ncclCommGetAsyncError(communicator_, &state) != ncclSuccess) return false;
      if (state != ncclInProgress) return state == ncclSuccess;
      if (machine_clock().now() >= until) return false;
      machine_clock().nap(100us);
    }
  }

  void check(cudaError_t code, std::string_view call) {
    if (code == cudaSuccess) [[likely]]
      return;
    broken_ = true;
    check_cuda(code, call, what_);
  }
  void check(ncclResult_t code, std::string_view call) {
    if (code == ncclSuccess || code == ncclInProgress) [[likely]]
      return;
    broken_ = true;
    const char* last = ncclGetLastError(communicator_);
    fail(ErrorCode::kIo, "{}: {}: {}{}{}; NCCL_DEBUG=WARN says more", what_, call, ncclGetErrorString(code),
         last != nullptr && *last != '\0' ? ": " : "", last != nullptr ? last : "");
  }
  void check_deadline(std::string_view missing) {
    if (machine_clock().now() - opened_ < neighbours_.deadline) return;
    broken_ = true;
    fail(ErrorCode::kUnavailable,
         "{}: no NCCL communicator after {:.1f} s: {}; see that rank {} runs, drives a GPU and can be reached (NCCL_SOCKET_IFNAME)", what_,
         std::chrono::duration<double>(neighbours_.deadline).count(), missing, name_.peer);
  }

  LineName name_;
  std::string what_;
  const NcclNeighbours& neighbours_;
  Instant opened_;
  State state_ = State::kNoId;
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool launching_ = false;
  bool leaving_ = false;
  bool broken_ = false;
  std::deque<Event> running_;  // one after each transfer
  std::vector<Event> spare_;
  std::unordered_map<std::byte*, Event> used_;  // by payload: after the work that may touch it
};

class NcclDevice final : public DeviceSide {
 public:
  explicit NcclDevice(const NcclNeighbours& neighbours) : neighbours_(neighbours) {
    if (neighbours_.peers.empty()) return;
    MILLRACE_CHECK(neighbours_.tell && neighbours_.ask, "ids of NCCL communicators need somebody to carry them");
    int devices = 0;
    const cudaError_t code = cudaGetDeviceCount(&devices);
    if (code != cudaSuccess || devices == 0)
      fail(ErrorCode::kUnavailable,
           "NCCL moves messages between GPUs, and there is no GPU here (cudaGetDeviceCount: {}); keep messages in host memory",
           code == cudaSuccess ? "none" : cudaGetErrorString(code));
    if (neighbours_.device < 0 || neighbours_.device >= devices)
      fail(ErrorCode::kUnavailable, "there is no GPU {}: this machine has {}, numbered from 0", neighbours_.device, devices);
  }

  std::unique_ptr<TransferQueue> connect(const LineName& name) override {
    if (std::ranges::find(neighbours_.peers, name.peer) == neighbours_.peers.end())
      fail(ErrorCode::kUnavailable,
           "{}: device memory travels between ranks that both drive a GPU, and rank {} is not said to be one; keep these messages in host "
           "memory",
           text_of(name), name.peer);
    auto queue = std::make_unique<NcclQueue>(name, neighbours_);
    queue->begin();
    return queue;
  }

  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    const std::string what = fmt::format("{} bytes of message buffers on GPU {}", bytes, neighbours_.device);
    check_cuda(cudaSetDevice(neighbours_.device), "cudaSetDevice", what);
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, std::max<size_t>(bytes, 1)), "cudaMalloc", what);
    return {static_cast<std::byte*>(memory), [](std::byte* given) { cudaFree(given); }};
  }

 private:
  const NcclNeighbours neighbours_;  // queues refer to it: the wire ends them first
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown version";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclWire::NcclWire(std::unique_ptr<Wire> host, const NcclNeighbours& neighbours)
    : AnnouncedWire(std::move(host), std::make_unique<NcclDevice>(neighbours)) {}

}  // namespace millrace
