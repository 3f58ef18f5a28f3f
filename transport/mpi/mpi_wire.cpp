#include "transport/mpi/mpi_wire.h"

#include <fmt/format.h>

#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "transport/local/local_wire.h"
#include "transport/local/split_wire.h"
#include "transport/mpi/mpi_handles.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

// Large messages travel in blocks of this size, so every slot is a multiple of it.
constexpr int64_t kBlockBytes = kSlotPage;
constexpr Nanoseconds kLeaveWithin = 1s;
constexpr Nanoseconds kLeaveWithinAfterAnError = 100ms;

int64_t blocks_of(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

// Memory that MPI may register with a network card, aligned as slots are.
class MpiMemory {
 public:
  explicit MpiMemory(size_t bytes) {
    check_mpi(MPI_Alloc_mem(static_cast<MPI_Aint>(bytes + kSlotAlignment), MPI_INFO_NULL, &base_),
              fmt::format("allocating {} bytes of message buffers", bytes));
    const auto address = reinterpret_cast<uintptr_t>(base_);
    data_ = static_cast<std::byte*>(base_) + (aligned(address) - address);
  }
  ~MpiMemory() { MPI_Free_mem(base_); }
  MpiMemory(const MpiMemory&) = delete;
  MpiMemory& operator=(const MpiMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  void* base_ = nullptr;
  std::byte* data_ = nullptr;
};

class MpiWire final : public Wire {
 public:
  MpiWire(const MpiGroup& group, const MpiWireSettings& settings)
      : Wire(group.rank(), group.ranks()), group_(group.copy()), communicator_(group_.state().communicator), settings_(settings) {
    MILLRACE_CHECK(settings.largest_count >= kBlockBytes && settings.largest_count <= std::numeric_limits<int>::max(), "largest count {}",
                   settings.largest_count);
    void* bound = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(communicator_, MPI_TAG_UB, &bound, &found), "asking for the largest tag");
    largest_tag_ = found != 0 ? *static_cast<int*>(bound) : 32767;
    check_mpi(MPI_Type_contiguous(static_cast<int>(kBlockBytes), MPI_BYTE, &block_), "making a type for large messages");
    check_mpi(MPI_Type_commit(&block_), "making a type for large messages");
  }

  ~MpiWire() override { close(); }

  size_t open(const ChannelSpec& spec) override {
    if (spec.device_memory) fail(ErrorCode::kUnavailable, "MPI moves messages in host memory; device memory needs NCCL");
    if (spec.tag > largest_tag_)
      fail(ErrorCode::kUnavailable, "tag {} is beyond this MPI's largest, {}; the plan has more flows than it can tell apart", spec.tag,
           largest_tag_);
    if (blocks_of(static_cast<int64_t>(kFrameHeaderBytes + spec.payload_bytes)) > std::numeric_limits<int>::max())
      fail(ErrorCode::kUnavailable, "messages of {} bytes are more than MPI counts; use a smaller micro-batch", spec.payload_bytes);
    auto channel = std::make_unique<Channel>(spec);
    channel->memory = std::make_unique<MpiMemory>(channel->slot_bytes * spec.slots);
    channels_.push_back(std::move(channel));
    const size_t number = channels_.size() - 1;
    if (!spec.outgoing) {
      channels_[number]->head = heads_.size();
      heads_.push_back(MPI_REQUEST_NULL);
      head_channels_.push_back(number);
      indices_.resize(heads_.size());
      statuses_.resize(heads_.size());
      for (size_t slot = 0; slot < spec.slots; ++slot) receive_again(number, slot);
    }
    return number;
  }

  Slot slot(size_t channel, size_t slot) override {
    std::byte* header = channels_[channel]->at(slot);
    return {header, header + kFrameHeaderBytes};
  }

  void send(size_t number, size_t slot, size_t payload_bytes) override {
    Channel& channel = *channels_[number];
    const Extent extent = extent_of(static_cast<int64_t>(kFrameHeaderBytes + payload_bytes));
    const int code = MPI_Isend(channel.at(slot), extent.count, extent.type, static_cast<int>(channel.spec.peer),
                               static_cast<int>(channel.spec.tag), communicator_, &channel.requests[slot]);
    if (code != MPI_SUCCESS) check_mpi(code, channel.doing());
  }

  bool sent(size_t number, size_t slot) override {
    Channel& channel = *channels_[number];
    if (channel.requests[slot] == MPI_REQUEST_NULL) return true;
    int done = 0;
    const int code = MPI_Test(&channel.requests[slot], &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) check_mpi(code, channel.doing());
    return done != 0;
  }

  void receive_again(size_t number, size_t slot) override {
    Channel& channel = *channels_[number];
    const Extent extent = extent_of(static_cast<int64_t>(kFrameHeaderBytes + channel.spec.payload_bytes));
    MPI_Request& request = slot == channel.next ? heads_[channel.head] : channel.requests[slot];
    const int code = MPI_Irecv(channel.at(slot), extent.count, extent.type, static_cast<int>(channel.spec.peer),
                               static_cast<int>(channel.spec.tag), communicator_, &request);
    if (code != MPI_SUCCESS) check_mpi(code, channel.doing());
  }

  Instant progress(std::vector<Arrival>& arrivals) override {
    if (heads_.empty()) return kNever;
    for (;;) {
      int done = 0;
      const int code = MPI_Testsome(static_cast<int>(heads_.size()), heads_.data(), &done, indices_.data(), statuses_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "receiving");
      if (done == MPI_UNDEFINED || done == 0) return kNever;
      for (int i = 0; i < done; ++i)
        arrived(head_channels_[static_cast<size_t>(indices_[static_cast<size_t>(i)])], statuses_[static_cast<size_t>(i)], code, arrivals);
    }
  }

 private:
  struct Channel {
    explicit Channel(const ChannelSpec& given)
        : spec(given),
          slot_bytes(static_cast<size_t>(kBlockBytes * blocks_of(static_cast<int64_t>(kFrameHeaderBytes + given.payload_bytes)))),
          requests(given.slots, MPI_REQUEST_NULL) {}
    std::byte* at(size_t slot) const { return memory->data() + slot * slot_bytes; }
    std::string doing() const {
      return fmt::format("{} rank {} with tag {}", spec.outgoing ? "sending to" : "receiving from", spec.peer, spec.tag);
    }

    ChannelSpec spec;
    size_t slot_bytes;
    std::unique_ptr<MpiMemory> memory;
    std::vector<MPI_Request> requests;  // per slot; of the next slot to receive into it is in heads_
    size_t next = 0;                    // receiving: the slot that the next frame comes into
    size_t head = 0;                    // its place in heads_
  };
  struct Extent {
    int count;
    MPI_Datatype type;
  };

  Extent extent_of(int64_t bytes) const {
    if (bytes <= settings_.largest_count) return {static_cast<int>(bytes), MPI_BYTE};
    return {static_cast<int>(blocks_of(bytes)), block_};
  }

  void arrived(size_t number, const MPI_Status& status, int code, std::vector<Arrival>& arrivals) {
    Channel& channel = *channels_[number];
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) check_mpi(status.MPI_ERROR, channel.doing());
    MPI_Count bytes = 0;
    check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "counting what arrived");
    arrivals.push_back({number, static_cast<size_t>(bytes)});
    // The frame after it comes into the next slot, which may be posted, arrived, or still in use.
    channel.next = (channel.next + 1) % channel.spec.slots;
    heads_[channel.head] = std::exchange(channel.requests[channel.next], MPI_REQUEST_NULL);
  }

  // Takes back what is posted, and waits a little for what is leaving or already half here.
  void close() noexcept {
    for (size_t i = 0; i < heads_.size(); ++i) {
      Channel& channel = *channels_[head_channels_[i]];
      channel.requests[channel.next] = heads_[i];
    }
    for (const auto& channel : channels_)
      for (MPI_Request& request : channel->requests)
        if (!channel->spec.outgoing && request != MPI_REQUEST_NULL) MPI_Cancel(&request);
    const Instant until = machine_clock().now() + (std::uncaught_exceptions() > 0 ? kLeaveWithinAfterAnError : kLeaveWithin);
    for (const auto& channel : channels_) {
      bool over = true;
      for (MPI_Request& request : channel->requests) {
        do {
          int done = 0;
          if (request == MPI_REQUEST_NULL || MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
        } while (request != MPI_REQUEST_NULL && machine_clock().now() < until);
        over = over && request == MPI_REQUEST_NULL;
      }
      if (!over) static_cast<void>(channel->memory.release());  // MPI may still use it: the process is about to end
    }
    MPI_Type_free(&block_);
  }

  MpiGroup group_;  // a communicator of its own: other wires of the group use the same tags
  MPI_Comm communicator_;
  MpiWireSettings settings_;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
  int largest_tag_ = 0;
  std::vector<std::unique_ptr<Channel>> channels_;
  // Of every channel that receives, the request of its next frame: all that must be asked.
  std::vector<MPI_Request> heads_;
  std::vector<size_t> head_channels_;
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
};

}  // namespace

std::unique_ptr<Wire> make_mpi_wire(const MpiGroup& group, const MpiWireSettings& settings) {
  return std::make_unique<MpiWire>(group, settings);
}

std::unique_ptr<Wire> make_ring_wire(const MpiGroup& group, const MpiWireSettings& settings) {
  return std::make_unique<SplitWire>(make_loopback_wire(group.rank(), group.ranks()), make_mpi_wire(group, settings));
}

}  // namespace millrace
