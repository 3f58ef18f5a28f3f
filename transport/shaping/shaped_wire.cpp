#include "transport/shaping/shaped_wire.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/index.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

// Clocks of one machine agree to far less than this.
constexpr Nanoseconds kClocksAgree = std::chrono::milliseconds(100);

}  // namespace

// The sending end. The stamp of a forward frame says when it is due, that of a backward one when it was sent.
class ShapedWire::ShapedChannel final : public Channel {
 public:
  ShapedChannel(Channel& below, LinkLedger& ledger, Direction direction, Clock& clock)
      : Channel(below.layout()), below_(below), ledger_(ledger), direction_(direction), clock_(clock) {}

  void send(size_t slot, size_t payload_bytes) override {
    Instant stamp = clock_.now();
    if (direction_ == Direction::kForward)
      stamp = ledger_.book(Direction::kForward, 8 * static_cast<int64_t>(kFrameHeaderBytes + payload_bytes), stamp);
    write_stamp(this->slot(slot).header, stamp.count());
    below_.send(slot, payload_bytes);
  }
  bool sent(size_t slot) override { return below_.sent(slot); }
  void receive_again(size_t slot) override { below_.receive_again(slot); }

 private:
  Channel& below_;
  LinkLedger& ledger_;
  Direction direction_;
  Clock& clock_;
};

ShapedWire::ShapedWire(std::unique_ptr<Wire> below, const std::vector<LinkShape>& links, Clock& clock)
    : Wire(below->rank(), below->ranks()), below_(std::move(below)), clock_(clock), held_(2 * links.size()) {
  for (const LinkShape& link : links) ledgers_.emplace_back(link);
}

ShapedWire::~ShapedWire() = default;

LinkLedger* ShapedWire::ledger_of(const ChannelSpec& spec) {
  if (spec.link < 0 || std::cmp_greater_equal(spec.link, ledgers_.size())) return nullptr;
  LinkLedger& ledger = item(ledgers_, spec.link);
  return ledger.shape().shapes() ? &ledger : nullptr;
}

Channel& ShapedWire::open(const ChannelSpec& spec) {
  LinkLedger* ledger = ledger_of(spec);
  ChannelSpec inner = spec;
  if (!spec.outgoing) inner.token = incoming_.size();
  Channel& below = below_->open(inner);
  if (!spec.outgoing) {
    const size_t queue = ledger == nullptr ? 0 : 2 * to_size(spec.link) + (spec.direction == Direction::kForward ? 0 : 1);
    incoming_.push_back({&below, ledger, spec.direction, queue, spec.token, spec.slots});
  }
  if (ledger == nullptr || !spec.outgoing) return below;
  channels_.push_back(std::make_unique<ShapedChannel>(below, *ledger, spec.direction, clock_));
  return *channels_.back();
}

Instant ShapedWire::progress(std::vector<Arrival>& arrivals) {
  seen_.clear();
  Instant next = below_->progress(seen_);
  if (seen_.empty() && held_count_ == 0) return next;
  const Instant now = clock_.now();
  for (const Arrival& seen : seen_) {
    Incoming& from = incoming_[seen.token];
    const Arrival arrival{from.token, seen.frame_bytes};
    const size_t slot = from.slot;
    from.slot = (from.slot + 1) % from.slots;
    if (from.ledger == nullptr) {
      arrivals.push_back(arrival);
      continue;
    }
    const auto stamp = Instant(read_stamp(from.channel->slot(slot).header));
    Instant due = stamp;
    if (from.direction == Direction::kBackward) {
      if (stamp > now + kClocksAgree)
        fail(ErrorCode::kUsage, "a frame on link {} was sent {:.3f} s in the future: links are shaped among ranks of one machine only",
             from.queue / 2, std::chrono::duration<double>(stamp - now).count());
      due = from.ledger->book(Direction::kBackward, 8 * static_cast<int64_t>(arrival.frame_bytes), stamp);
    }
    held_[from.queue].push_back({due, arrival});
    ++held_count_;
  }
  for (std::deque<Held>& queue : held_) {
    for (; !queue.empty() && queue.front().due <= now; queue.pop_front(), --held_count_) arrivals.push_back(queue.front().arrival);
    if (!queue.empty()) next = std::min(next, queue.front().due);
  }
  return next;
}

}  // namespace millrace
