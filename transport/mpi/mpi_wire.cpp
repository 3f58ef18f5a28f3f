#include "transport/mpi/mpi_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/local/local_wire.h"
#include "transport/local/split_wire.h"
#include "transport/mpi/doorbells.h"
#include "transport/mpi/host_channels.h"
#include "transport/mpi/mpi_handles.h"
#include "transport/mpi/watchdog.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

// Large messages travel in blocks of this size, so every slot is a multiple of it.
constexpr int64_t kBlockBytes = kSlotPage;
// Receives of frames up to this size are posted for all slots at once. Larger ones are posted one at a time, and the next
// not before the user has seen the last: Open MPI copies large messages while it makes progress, all that it can find, and two
// ranks that exchange them would take turns, one copying while the other waits for it to send.
constexpr size_t kPostedAhead = 16384;
constexpr Nanoseconds kLeaveWithin = 1s;
constexpr Nanoseconds kLeaveWithinAfterAnError = 100ms;

int64_t blocks_of(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes; }

// How MPI is told the length of a frame.
struct Extent {
  int count;
  MPI_Datatype type;
};

class Extents {
 public:
  explicit Extents(int64_t largest_count) : largest_count_(largest_count) {
    check_mpi(MPI_Type_contiguous(static_cast<int>(kBlockBytes), MPI_BYTE, &block_), "making a type for large messages");
    check_mpi(MPI_Type_commit(&block_), "making a type for large messages");
  }
  ~Extents() { MPI_Type_free(&block_); }
  Extents(const Extents&) = delete;
  Extents& operator=(const Extents&) = delete;

  Extent of(size_t payload_bytes) const {
    const auto bytes = static_cast<int64_t>(kFrameHeaderBytes + payload_bytes);
    if (bytes <= largest_count_) return {static_cast<int>(bytes), MPI_BYTE};
    return {static_cast<int>(blocks_of(bytes)), block_};
  }

 private:
  int64_t largest_count_;
  MPI_Datatype block_ = MPI_DATATYPE_NULL;
};

// Memory that MPI may register with a network card, aligned as slots are.
class MpiMemory {
 public:
  explicit MpiMemory(size_t bytes) {
    check_mpi(MPI_Alloc_mem(static_cast<MPI_Aint>(bytes + kSlotAlignment), MPI_INFO_NULL, &base_),
              fmt::format("allocating {} bytes of message buffers", bytes));
  }
  ~MpiMemory() {
    if (base_ != nullptr) MPI_Free_mem(base_);
  }
  MpiMemory(const MpiMemory&) = delete;
  MpiMemory& operator=(const MpiMemory&) = delete;

  std::byte* data() const {
    const auto address = reinterpret_cast<uintptr_t>(base_);
    return static_cast<std::byte*>(base_) + (aligned(address) - address);
  }
  // Leaves it to MPI for good.
  void abandon() { base_ = nullptr; }

 private:
  void* base_ = nullptr;
};

size_t slot_bytes_of(const ChannelSpec& spec) {
  return to_size(kBlockBytes * blocks_of(static_cast<int64_t>(kFrameHeaderBytes + spec.payload_bytes)));
}

SlotLayout layout_of(const MpiMemory& memory, const ChannelSpec& spec) {
  return {{memory.data(), memory.data() + kFrameHeaderBytes}, slot_bytes_of(spec), slot_bytes_of(spec)};
}

class MpiChannel final : public Channel {
 public:
  // `due` takes note of channels that have a receive to post, `leaving` of those that have sent; `bells` is null where the peer has none.
  MpiChannel(const ChannelSpec& spec, std::unique_ptr<MpiMemory> memory, const Extents& extents, MPI_Comm communicator,
             std::vector<MpiChannel*>& due, std::vector<MpiChannel*>& leaving, Doorbells* bells)
      : Channel(layout_of(*memory, spec)),
        spec_(spec),
        memory_(std::move(memory)),
        extents_(extents),
        communicator_(communicator),
        due_(due),
        leaving_(leaving),
        bells_(bells),
        in_turn_(spec.payload_bytes > kPostedAhead),
        requests_(spec.slots, MPI_REQUEST_NULL) {
    if (spec.outgoing) return;
    const Extent extent = extents_.of(spec.payload_bytes);
    for (size_t slot = 0; slot < spec.slots; ++slot)
      check(MPI_Recv_init(this->slot(slot).header, extent.count, extent.type, peer(), tag(), communicator_, &requests_[slot]));
    for (size_t slot = 0; slot < (in_turn_ ? 1 : spec.slots); ++slot) check(MPI_Start(&requests_[slot]));
    free_.assign(spec.slots, true);
    free_[0] = false;
  }

  void send(size_t slot, size_t payload_bytes) override {
    const Extent extent = extents_.of(payload_bytes);
    check(MPI_Isend(this->slot(slot).header, extent.count, extent.type, peer(), tag(), communicator_, &requests_[slot]));
    if (bells_ == nullptr) return;
    bells_->ring(spec_.peer);
    if (!is_leaving_) leaving_.push_back(this);
    is_leaving_ = true;
  }
  bool sent(size_t slot) override {
    if (requests_[slot] == MPI_REQUEST_NULL) return true;
    int done = 0;
    check(MPI_Test(&requests_[slot], &done, MPI_STATUS_IGNORE));
    return done != 0;
  }
  // Nothing is leaving any more.
  bool has_left() {
    for (size_t slot = 0; slot < requests_.size(); ++slot)
      if (!sent(slot)) return false;
    is_leaving_ = false;
    return true;
  }
  void receive_again(size_t slot) override {
    if (!in_turn_) {
      check(MPI_Start(&requests_[slot]));
      return;
    }
    free_[slot] = true;
    if (slot == next_) due_.push_back(this);
  }
  // In turn: posts the receive of the next frame.
  void post_next() {
    if (!free_[next_]) return;
    free_[next_] = false;
    check(MPI_Start(&requests_[next_]));
  }

  const ChannelSpec& spec() const { return spec_; }
  // Of the frame to come.
  MPI_Request head() const { return requests_[next_]; }
  // The head has arrived. While the slot after it is in use, its request is inactive, and nobody asks for it.
  Arrival arrived(const MPI_Status& status) {
    int count = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &count));
    MPI_Count bytes = count;
    if (count == MPI_UNDEFINED) check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));  // more than an int holds
    next_ = next_ + 1 == spec_.slots ? 0 : next_ + 1;
    if (in_turn_) due_.push_back(this);
    return {spec_.token, to_size(bytes)};
  }
  void check(int code) const {
    if (code == MPI_SUCCESS) [[likely]]
      return;
    check_mpi(code, fmt::format("{} rank {} with tag {}", spec_.outgoing ? "sending to" : "receiving from", spec_.peer, spec_.tag));
  }

  // Takes back what is posted; an inactive request must not be cancelled: Open MPI would wait for it for ever.
  void cancel() noexcept {
    if (spec_.outgoing) return;
    for (MPI_Request& request : requests_) {
      int inactive = 0;
      MPI_Status status;
      if (MPI_Request_get_status(request, &inactive, &status) == MPI_SUCCESS && inactive == 0) MPI_Cancel(&request);
    }
  }
  // Waits a little for what is leaving or already half here.
  void close(Instant until) noexcept {
    for (MPI_Request& request : requests_) {
      int done = 0;
      do {
        if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
      } while (done == 0 && machine_clock().now() < until);
      if (done == 0)
        memory_->abandon();  // MPI may still use it: the process is about to end
      else if (!spec_.outgoing)
        MPI_Request_free(&request);
    }
  }

 private:
  int peer() const { return static_cast<int>(spec_.peer); }
  int tag() const { return static_cast<int>(spec_.tag); }

  ChannelSpec spec_;
  std::unique_ptr<MpiMemory> memory_;
  const Extents& extents_;
  MPI_Comm communicator_;
  std::vector<MpiChannel*>& due_;
  std::vector<MpiChannel*>& leaving_;
  Doorbells* bells_;
  bool is_leaving_ = false;  // and in that list
  bool in_turn_;
  std::vector<MPI_Request> requests_;  // per slot; persistent ones to receive
  std::vector<bool> free_;             // per slot, in turn: may be received into
  size_t next_ = 0;                    // receiving: the slot that the next frame comes into
};

class MpiWire final : public Wire, private Waker {
 public:
  MpiWire(const MpiGroup& group, const MpiWireSettings& settings)
      : Wire(group.rank(), group.ranks()),
        group_(group.copy()),
        bells_(bells_of(group_)),
        here_(host_channels_of(group_, bells_.crowded() && bells_.reaches(group.rank()) ? &bells_ : nullptr, settings.share_memory)),
        extents_(settings.largest_count) {
    MILLRACE_CHECK(settings.largest_count >= kBlockBytes && settings.largest_count <= std::numeric_limits<int>::max(), "largest count {}",
                   settings.largest_count);
    void* bound = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(group_.state().communicator, MPI_TAG_UB, &bound, &found), "asking for the largest tag");
    largest_tag_ = found != 0 ? *static_cast<int*>(bound) : 32767;
  }
  ~MpiWire() override {
    const Instant until = machine_clock().now() + (std::uncaught_exceptions() > 0 ? kLeaveWithinAfterAnError : kLeaveWithin);
    for (const auto& channel : channels_) channel->cancel();
    for (const auto& channel : channels_) channel->close(until);
  }

  Channel& open(const ChannelSpec& spec) override {
    if (!spec.device_memory && here_.reaches(spec.peer)) {
      uses_memory_ = true;
      return here_.open(spec);
    }
    if (spec.device_memory) fail(ErrorCode::kUnavailable, "MPI moves messages in host memory; device memory needs NCCL");
    if (spec.tag > largest_tag_)
      fail(ErrorCode::kUnavailable, "tag {} is beyond this MPI's largest, {}; the plan has more flows than it can tell apart", spec.tag,
           largest_tag_);
    if (slot_bytes_of(spec) / static_cast<size_t>(kBlockBytes) > static_cast<size_t>(std::numeric_limits<int>::max()))
      fail(ErrorCode::kUnavailable, "messages of {} bytes are more than MPI counts; use a smaller micro-batch", spec.payload_bytes);
    Doorbells* const bells = crowded() && bells_.reaches(spec.peer) ? &bells_ : nullptr;
    all_can_ring_ = all_can_ring_ && bells != nullptr;
    channels_.push_back(std::make_unique<MpiChannel>(spec, std::make_unique<MpiMemory>(slot_bytes_of(spec) * spec.slots), extents_,
                                                     group_.state().communicator, due_, leaving_, bells));
    MpiChannel& channel = *channels_.back();
    if (!spec.outgoing) {
      heads_.push_back(channel.head());
      receivers_.push_back(&channel);
      indices_.resize(heads_.size());
      statuses_.resize(heads_.size());
    }
    return channel;
  }

  Instant progress(std::vector<Arrival>& arrivals) override {
    heard_ = bells_.heard();
    if (uses_memory_) here_.progress(arrivals);
    if (heads_.empty()) return kNoInstant;
    for (MpiChannel* channel : due_) channel->post_next();
    due_.clear();
    // MPI_Testsome looks first and makes progress afterwards, when it found nothing: a second look sees what that brought.
    // Not a third, nor one after something was found: it would give the processor away before anybody sees what is here.
    int done = 0;
    int code = MPI_SUCCESS;
    for (int look = 0; look < 2 && done == 0; ++look) {
      code = MPI_Testsome(static_cast<int>(heads_.size()), heads_.data(), &done, indices_.data(), statuses_.data());
      if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) check_mpi(code, "receiving");
    }
    if (done == MPI_UNDEFINED) return kNoInstant;  // every slot that could receive is in use
    for (size_t i = 0; i < static_cast<size_t>(done); ++i) {
      const auto index = to_size(indices_[i]);
      if (code == MPI_ERR_IN_STATUS) receivers_[index]->check(statuses_[i].MPI_ERROR);
      arrivals.push_back(receivers_[index]->arrived(statuses_[i]));
      heads_[index] = receivers_[index]->head();
    }
    return kNoInstant;
  }

  // Not where every rank has a core: brief naps find a message sooner than waking an idle core takes, by 4% of a training of two ranks.
  Waker* waker() override { return crowded() && all_can_ring_ && (uses_memory_ || !channels_.empty()) ? this : nullptr; }

 private:
  static Doorbells bells_of(const MpiGroup& group) {
    const Watchdog watchdog("meeting the ranks of this host", group.state().deadline);
    return Doorbells(group.state().communicator);
  }

  static HostChannels host_channels_of(const MpiGroup& group, Doorbells* bells, bool wanted) {
    const Watchdog watchdog("meeting the ranks of this host", group.state().deadline);
    return HostChannels(group.state().communicator, bells, wanted);
  }

  // What is still leaving may do so only while MPI is asked: then it sleeps half as long.
  bool sleep(Nanoseconds at_most) override {
    std::erase_if(leaving_, [](MpiChannel* channel) { return channel->has_left(); });
    return bells_.sleep(heard_, leaving_.empty() ? at_most : at_most / 2);
  }

  bool crowded() const override { return bells_.crowded(); }

  MpiGroup group_;  // a communicator of its own: other wires of the group use the same tags
  Doorbells bells_;
  HostChannels here_;  // to ranks of this host
  bool uses_memory_ = false;
  Extents extents_;
  int largest_tag_ = 0;
  std::vector<std::unique_ptr<MpiChannel>> channels_;
  std::vector<MpiChannel*> due_;
  std::vector<MpiChannel*> leaving_;  // may have sends under way
  bool all_can_ring_ = true;
  uint32_t heard_ = 0;  // before the last look
  // Of every channel that receives, the request of its next frame: all that must be asked.
  std::vector<MPI_Request> heads_;
  std::vector<MpiChannel*> receivers_;
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
