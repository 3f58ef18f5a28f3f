// For Transport, which holds some: the sending end of a channel that frames of many flows share. A frame is copied into a free
// slot and sent, or queued until one is free.
//
//   lane.push(header, payload);
//   lane.flush();                  // now and then
//
// Borrows the channel. Not bounded by itself: flows are by their credits, credits and heartbeats wait for idle().
#pragma once

#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "core/base/check.h"
#include "transport/streams/frame.h"
#include "transport/streams/wire.h"

namespace millrace {

class Lane {
 public:
  Lane(Wire& wire, const ChannelSpec& spec) : channel_(&wire.open(spec)), slots_(spec.slots), payload_bytes_(spec.payload_bytes) {}

  // A frame pushed now would leave at once.
  bool idle() { return pending_.empty() && channel_->sent(next_); }
  bool empty() const { return pending_.empty(); }
  // Everything pushed has left.
  bool drained() {
    for (size_t slot = 0; slot < slots_; ++slot)
      if (!channel_->sent(slot)) return false;
    return pending_.empty();
  }

  // The payload may come in two parts.
  void push(const FrameHeader& header, std::span<const std::byte> payload, std::span<const std::byte> rest = {}) {
    MILLRACE_CHECK(payload.size() + rest.size() <= payload_bytes_, "{} bytes for a slot of {}", payload.size() + rest.size(),
                   payload_bytes_);
    if (idle()) {
      send(header, payload, rest);
      return;
    }
    Pending frame{header, {}};
    frame.payload.reserve(payload.size() + rest.size());
    frame.payload.insert(frame.payload.end(), payload.begin(), payload.end());
    frame.payload.insert(frame.payload.end(), rest.begin(), rest.end());
    pending_.push_back(std::move(frame));
  }

  void flush() {
    while (!pending_.empty() && channel_->sent(next_)) {
      send(pending_.front().header, pending_.front().payload, {});
      pending_.pop_front();
    }
  }

 private:
  struct Pending {
    FrameHeader header;
    std::vector<std::byte> payload;
  };

  void send(const FrameHeader& header, std::span<const std::byte> payload, std::span<const std::byte> rest) {
    const Slot place = channel_->slot(next_);
    write_header(header, place.header);
    if (!payload.empty()) std::memcpy(place.payload, payload.data(), payload.size());
    if (!rest.empty()) std::memcpy(place.payload + payload.size(), rest.data(), rest.size());
    channel_->send(next_, payload.size() + rest.size());
    next_ = next_ + 1 == slots_ ? 0 : next_ + 1;
  }

  Channel* channel_;
  size_t slots_;
  size_t payload_bytes_;
  size_t next_ = 0;  // slot
  std::deque<Pending> pending_;
};

}  // namespace millrace
