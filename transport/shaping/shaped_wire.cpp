#include "transport/shaping/shaped_wire.h"

#include <algorithm>

#include "core/base/error.h"
#include "transport/streams/frame.h"

namespace millrace {

namespace {

// Clocks of one machine agree to far less than this.
constexpr Nanoseconds kClocksAgree = std::chrono::milliseconds(100);

}  // namespace

ShapedWire::ShapedWire(std::unique_ptr<Wire> below, const std::vector<LinkShape>& links, Clock& clock)
    : Wire(below->rank(), below->ranks()), below_(std::move(below)), clock_(clock), held_(2 * links.size()) {
  for (const LinkShape& link : links) ledgers_.emplace_back(link);
}

size_t ShapedWire::open(const ChannelSpec& spec) {
  const bool shaped =
      spec.link >= 0 && static_cast<size_t>(spec.link) < ledgers_.size() && ledgers_[static_cast<size_t>(spec.link)].shape().shapes();
  channels_.push_back({shaped ? static_cast<size_t>(spec.link) : kUnshaped, spec.direction, spec.slots});
  return below_->open(spec);
}

// The stamp of a forward frame says when it is due, that of a backward one when it was sent.
void ShapedWire::send(size_t channel, size_t slot, size_t payload_bytes) {
  const Channel& to = channels_[channel];
  if (to.ledger != kUnshaped) {
    Instant stamp = clock_.now();
    if (to.direction == Direction::kForward)
      stamp = ledgers_[to.ledger].book(Direction::kForward, 8 * static_cast<int64_t>(kFrameHeaderBytes + payload_bytes), stamp);
    write_stamp(below_->slot(channel, slot).header, stamp.count());
  }
  below_->send(channel, slot, payload_bytes);
}

Instant ShapedWire::progress(std::vector<Arrival>& arrivals) {
  seen_.clear();
  Instant next = below_->progress(seen_);
  if (seen_.empty() && held_count_ == 0) return next;
  const Instant now = clock_.now();
  for (const Arrival& arrival : seen_) {
    Channel& from = channels_[arrival.channel];
    const size_t slot = from.frames++ % from.slots;
    if (from.ledger == kUnshaped) {
      arrivals.push_back(arrival);
      continue;
    }
    const auto stamp = Instant(read_stamp(below_->slot(arrival.channel, slot).header));
    LinkLedger& ledger = ledgers_[from.ledger];
    Instant due = stamp;
    if (from.direction == Direction::kBackward) {
      if (stamp > now + kClocksAgree)
        fail(ErrorCode::kUsage, "a frame on link {} was sent {:.3f} s in the future: links are shaped among ranks of one machine only",
             from.ledger, std::chrono::duration<double>(stamp - now).count());
      due = ledger.book(Direction::kBackward, 8 * static_cast<int64_t>(arrival.frame_bytes), stamp);
    }
    held_[2 * from.ledger + (from.direction == Direction::kForward ? 0 : 1)].push_back({due, arrival});
    ++held_count_;
  }
  for (std::deque<Held>& queue : held_) {
    for (; !queue.empty() && queue.front().due <= now; queue.pop_front(), --held_count_) arrivals.push_back(queue.front().arrival);
    if (!queue.empty()) next = std::min(next, queue.front().due);
  }
  return next;
}

}  // namespace millrace
