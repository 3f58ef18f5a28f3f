#include "transport/local/local_wire.h"

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/streams/aligned_buffer.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

constexpr size_t kNotOpened = SIZE_MAX;

// What both ends of a channel hold.
struct SharedSlots {
  explicit SharedSlots(const ChannelSpec& spec)
      : payload_bytes(spec.payload_bytes),
        slot_bytes(kFrameHeaderBytes + aligned(spec.payload_bytes)),
        slots(spec.slots),
        memory(slots * slot_bytes),
        full(slots) {}
  SlotLayout layout() const { return {{memory.data(), memory.data() + kFrameHeaderBytes}, slot_bytes, slot_bytes}; }

  size_t payload_bytes;
  size_t slot_bytes;
  size_t slots;
  AlignedBuffer memory;
  // Set by the sender before the frame is announced, cleared by the receiver when the slot is free again.
  std::vector<std::atomic<bool>> full;
  std::atomic<size_t> token{kNotOpened};  // the receiver's
};

// What has been sent to a rank and not been noticed yet, in order.
struct Mailbox {
  struct Letter {
    SharedSlots* slots;
    size_t frame_bytes;
  };
  void put(const Letter& letter) {
    const std::scoped_lock lock(mutex);
    letters.push_back(letter);
    any.store(true, std::memory_order_release);
  }
  void take(std::vector<Letter>& to) {
    if (!any.load(std::memory_order_acquire)) return;
    const std::scoped_lock lock(mutex);
    to.insert(to.end(), letters.begin(), letters.end());
    letters.clear();
    any.store(false, std::memory_order_relaxed);
  }

  std::mutex mutex;
  std::vector<Letter> letters;
  std::atomic<bool> any{false};
};

// One end.
class LocalChannel final : public Channel {
 public:
  // `mailbox` is the receiver's.
  LocalChannel(std::shared_ptr<SharedSlots> slots, Mailbox& mailbox)
      : Channel(slots->layout()), slots_(std::move(slots)), mailbox_(mailbox) {}

  void send(size_t slot, size_t payload_bytes) override {
    slots_->full[slot].store(true, std::memory_order_relaxed);  // the mailbox's lock publishes it, with the frame
    mailbox_.put({slots_.get(), kFrameHeaderBytes + payload_bytes});
  }
  bool sent(size_t slot) override { return !slots_->full[slot].load(std::memory_order_acquire); }
  void receive_again(size_t slot) override { slots_->full[slot].store(false, std::memory_order_release); }

 private:
  std::shared_ptr<SharedSlots> slots_;
  Mailbox& mailbox_;
};

}  // namespace

struct LocalHub::State {
  explicit State(int64_t count) : ranks(count), mailboxes(to_size(ranks)) {}

  std::shared_ptr<SharedSlots> slots(int64_t from, int64_t to, const ChannelSpec& spec) {
    const std::scoped_lock lock(mutex);
    std::shared_ptr<SharedSlots>& found = all[{from, to, spec.tag}];
    if (!found) {
      found = std::make_shared<SharedSlots>(spec);
      allocated += found->memory.size();
    }
    if (found->payload_bytes != spec.payload_bytes || found->slots != spec.slots)
      fail(ErrorCode::kMismatch, "channel {} from rank {} to {}: {} slots of {} bytes at one end, {} of {} at the other", spec.tag, from,
           to, found->slots, found->payload_bytes, spec.slots, spec.payload_bytes);
    return found;
  }

  const int64_t ranks;
  std::mutex mutex;
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::shared_ptr<SharedSlots>> all;  // by from, to, tag
  size_t allocated = 0;
  std::vector<Mailbox> mailboxes;  // by rank
};

namespace {

class LocalWire final : public Wire {
 public:
  // `place` is the rank in the hub, `rank` and `ranks` are what the wire says of itself.
  LocalWire(std::shared_ptr<LocalHub::State> hub, int64_t place, int64_t rank, int64_t ranks)
      : Wire(rank, ranks), hub_(std::move(hub)), place_(place) {}

  Channel& open(const ChannelSpec& spec) override {
    if (spec.device_memory) fail(ErrorCode::kUnavailable, "messages between threads lie in host memory; device memory needs NCCL");
    const int64_t peer = hub_->ranks == 1 ? 0 : spec.peer;
    MILLRACE_CHECK(peer >= 0 && peer < hub_->ranks, "peer {} of {} ranks", peer, hub_->ranks);
    const int64_t from = spec.outgoing ? place_ : peer;
    const int64_t to = spec.outgoing ? peer : place_;
    std::shared_ptr<SharedSlots> slots = hub_->slots(from, to, spec);
    if (!spec.outgoing) slots->token.store(spec.token, std::memory_order_release);
    channels_.push_back(std::make_unique<LocalChannel>(std::move(slots), item(hub_->mailboxes, to)));
    return *channels_.back();
  }

  Instant progress(std::vector<Arrival>& arrivals) override {
    item(hub_->mailboxes, place_).take(letters_);
    // A sender may be ahead of our open(): its letters stay until then.
    std::erase_if(letters_, [&](const Mailbox::Letter& letter) {
      const size_t token = letter.slots->token.load(std::memory_order_acquire);
      if (token == kNotOpened) return false;
      arrivals.push_back({token, letter.frame_bytes});
      return true;
    });
    return kNoInstant;
  }

 private:
  std::shared_ptr<LocalHub::State> hub_;
  int64_t place_;
  std::vector<std::unique_ptr<LocalChannel>> channels_;
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
