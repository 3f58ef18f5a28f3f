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
    if (!spec.outgoing) prepare_to_receive(number);
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
    const int code = MPI_Start(&channel.requests[slot]);
    if (code != MPI_SUCCESS) check_mpi(code, channel.doing());
  }

  Instant progress(std::vector<Arrival>& arrivals) override {
    if (heads_.empty()) return kNever;
    // MPI_Testsome looks first and makes progress afterwards, when it found nothing: a second look sees what that brought.
    // Not a third, nor one after something was found: it would give the processor away before anybody sees what is here.
    int done = 0;
    int code = MPI_SUCCESS;
    for (int look = 0; look < 2 && done == 0; ++look) {
      code = MPI_Testsome(static_cast<int>(heads_.size()), heads_.data(), &done, indices_.data(), statuses_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "receiving");
    }
    if (done == MPI_UNDEFINED) return kNever;
    for (size_t i = 0; i < static_cast<size_t>(done); ++i)
      arrived(head_channels_[static_cast<size_t>(indices_[i])], statuses_[i], code, arrivals);
    return kNever;
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
    std::vector<MPI_Request> requests;  // per slot; persistent ones to receive
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

  void prepare_to_receive(size_t number) {
    Channel& channel = *channels_[number];
    const Extent extent = extent_of(static_cast<int64_t>(kFrameHeaderBytes + channel.spec.payload_bytes));
    for (size_t slot = 0; slot < channel.spec.slots; ++slot) {
      check_mpi(MPI_Recv_init(channel.at(slot), extent.count, extent.type, static_cast<int>(channel.spec.peer),
                              static_cast<int>(channel.spec.tag), communicator_, &channel.requests[slot]),
                channel.doing());
      receive_again(number, slot);
    }
    channel.head = heads_.size();
    heads_.push_back(channel.requests[0]);
    head_channels_.push_back(number);
    indices_.resize(heads_.size());
    statuses_.resize(heads_.size());
  }

  void arrived(size_t number, const MPI_Status& status, int code, std::vector<Arrival>& arrivals) {
    Channel& channel = *channels_[number];
    if (code == MPI_ERR_IN_STATUS && status.MPI_ERROR != MPI_SUCCESS) check_mpi(status.MPI_ERROR, channel.doing());
    int count = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &count), "counting what arrived");
    MPI_Count bytes = count;
    if (count == MPI_UNDEFINED)
      check_mpi(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "counting what arrived");  // more than an int holds
    arrivals.push_back({number, static_cast<size_t>(bytes)});
    // The frame after it comes into the next slot; while that is in use its request is inactive, and nobody asks for it.
    channel.next = channel.next + 1 == channel.spec.slots ? 0 : channel.next + 1;
    heads_[channel.head] = channel.requests[channel.next];
  }

  // Takes back what is posted, and waits a little for what is leaving or already half here.
  void close() noexcept {
    const Instant until = machine_clock().now() + (std::uncaught_exceptions() > 0 ? kLeaveWithinAfterAnError : kLeaveWithin);
    for (const auto& channel : channels_)
      if (!channel->spec.outgoing)
        for (MPI_Request& request : channel->requests) cancel(request);
    for (const auto& channel : channels_) {
      bool over = true;
      for (MPI_Request& request : channel->requests) {
        int done = 0;
        do {
          if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
        } while (done == 0 && machine_clock().now() < until);
        over = over && done != 0;
        if (!channel->spec.outgoing && done != 0) MPI_Request_free(&request);
      }
      if (!over) static_cast<void>(channel->memory.release());  // MPI may still use it: the process is about to end
    }
    MPI_Type_free(&block_);
  }

  // An inactive request must not be cancelled: Open MPI would wait for it for ever.
  static void cancel(MPI_Request& request) {
    int inactive = 0;
    MPI_Status status;
    if (MPI_Request_get_status(request, &inactive, &status) == MPI_SUCCESS && inactive == 0) MPI_Cancel(&request);
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
