#include "transport/local/local_wire.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

constexpr size_t kNotOpened = SIZE_MAX;

// One direction between two ranks; both ends hold it.
struct LocalChannel {
  explicit LocalChannel(const ChannelSpec& spec)
      : payload_bytes(spec.payload_bytes),
        slot_bytes(kFrameHeaderBytes + aligned(spec.payload_bytes)),
        slots(spec.slots),
        memory(slots * slot_bytes),
        full(slots) {}

  size_t payload_bytes;
  size_t slot_bytes;
  size_t slots;
  AlignedBuffer memory;
  // Set by the sender before the frame is announced, cleared by the receiver when the slot is free again.
  std::vector<std::atomic<bool>> full;
  std::atomic<size_t> receiver{kNotOpened};  // its channel number there
};

// What has been sent to a rank and not been noticed yet, in order.
struct Mailbox {
  struct Letter {
    LocalChannel* channel;
    size_t frame_bytes;
  };
  std::mutex mutex;
  std::vector<Letter> letters;
  std::atomic<bool> any{false};
};

}  // namespace

struct LocalHub::State {
  explicit State(int64_t count) : ranks(count), mailboxes(static_cast<size_t>(count)) {}

  std::shared_ptr<LocalChannel> channel(int64_t from, int64_t to, const ChannelSpec& spec) {
    const std::scoped_lock lock(mutex);
    std::shared_ptr<LocalChannel>& found = channels[{from, to, spec.tag}];
    if (!found) {
      found = std::make_shared<LocalChannel>(spec);
      allocated += found->memory.size();
    }
    if (found->payload_bytes != spec.payload_bytes || found->slots != spec.slots)
      fail(ErrorCode::kMismatch, "channel {} from rank {} to {}: {} slots of {} bytes at one end, {} of {} at the other", spec.tag, from,
           to, found->slots, found->payload_bytes, spec.slots, spec.payload_bytes);
    return found;
  }

  const int64_t ranks;
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::shared_ptr<LocalChannel>> channels;  // by from, to, tag
  size_t allocated = 0;
  std::vector<Mailbox> mailboxes;
};

namespace {

class LocalWire final : public Wire {
 public:
  // `place` is the rank in the hub, `rank` and `ranks` are what the wire says of itself.
  LocalWire(std::shared_ptr<LocalHub::State> hub, int64_t place, int64_t rank, int64_t ranks)
      : Wire(rank, ranks), hub_(std::move(hub)), place_(place) {}

  size_t open(const ChannelSpec& spec) override {
    if (spec.device_memory) fail(ErrorCode::kUnavailable, "messages between threads lie in host memory; device memory needs NCCL");
    const int64_t peer = hub_->ranks == 1 ? 0 : spec.peer;
    MILLRACE_CHECK(peer >= 0 && peer < hub_->ranks, "peer {} of {} ranks", peer, hub_->ranks);
    const size_t number = ends_.size();
    const int64_t from = spec.outgoing ? place_ : peer;
    const int64_t to = spec.outgoing ? peer : place_;
    ends_.push_back({hub_->channel(from, to, spec), spec.outgoing ? &hub_->mailboxes[static_cast<size_t>(peer)] : nullptr});
    if (!spec.outgoing) ends_.back().channel->receiver.store(number, std::memory_order_release);
    return number;
  }

  Slot slot(size_t channel, size_t slot) override {
    LocalChannel& shared = *ends_[channel].channel;
    std::byte* header = shared.memory.data() + slot * shared.slot_bytes;
    return {header, header + kFrameHeaderBytes};
  }

  void send(size_t channel, size_t slot, size_t payload_bytes) override {
    LocalChannel& shared = *ends_[channel].channel;
    shared.full[slot].store(true, std::memory_order_relaxed);  // the mailbox's lock publishes it, with the frame
    Mailbox& mailbox = *ends_[channel].mailbox;
    const std::scoped_lock lock(mailbox.mutex);
    mailbox.letters.push_back({&shared, kFrameHeaderBytes + payload_bytes});
    mailbox.any.store(true, std::memory_order_release);
  }

  bool sent(size_t channel, size_t slot) override { return !ends_[channel].channel->full[slot].load(std::memory_order_acquire); }

  void receive_again(size_t channel, size_t slot) override { ends_[channel].channel->full[slot].store(false, std::memory_order_release); }

  Instant progress(std::vector<Arrival>& arrivals) override {
    Mailbox& mine = hub_->mailboxes[static_cast<size_t>(place_)];
    if (mine.any.load(std::memory_order_acquire)) {
      const std::scoped_lock lock(mine.mutex);
      letters_.insert(letters_.end(), mine.letters.begin(), mine.letters.end());
      mine.letters.clear();
      mine.any.store(false, std::memory_order_relaxed);
    }
    if (letters_.empty()) return kNever;
    // A sender may be ahead of our open(): its letters stay until then.
    std::erase_if(letters_, [&](const Mailbox::Letter& letter) {
      const size_t number = letter.channel->receiver.load(std::memory_order_acquire);
      if (number == kNotOpened) return false;
      arrivals.push_back({number, letter.frame_bytes});
      return true;
    });
    return kNever;
  }

 private:
  struct End {
    std::shared_ptr<LocalChannel> channel;
    Mailbox* mailbox;  // the receiver's; of outgoing channels
  };
  std::shared_ptr<LocalHub::State> hub_;
  int64_t place_;
  std::vector<End> ends_;
  std::vector<Mailbox::Letter> letters_;
};

}  // namespace

LocalHub::LocalHub(int64_t ranks) : state_(std::make_shared<State>(ranks)) { MILLRACE_CHECK(ranks > 0, "{} ranks", ranks); }

std::unique_ptr<Wire> LocalHub::wire(int64_t rank) {
  MILLRACE_CHECK(rank >= 0 && rank < state_->ranks, "rank {} of {}", rank, state_->ranks);
  return std::make_unique<LocalWire>(state_, rank, rank, state_->ranks);
}

size_t LocalHub::allocated_bytes() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->allocated;
}

std::unique_ptr<Wire> make_loopback_wire(int64_t rank, int64_t ranks) {
  return std::make_unique<LocalWire>(std::make_shared<LocalHub::State>(1), 0, rank, ranks);
}

}  // namespace millrace
