// A wire as slow as one likes: gives the links of a ring a bandwidth, a shared budget and a latency, over any other wire.
//
//   auto wire = std::make_unique<ShapedWire>(hub.wire(rank), link_shapes(plan), machine_clock());
//   Transport transport(std::move(wire));
//
// All frames of a link count (headers and credits too), inside a rank as between ranks; control between ranks travels
// freely. The order of frames is that of the wire below; only the time is imposed, on the clock given. The rank at a link's
// lower end keeps its book for both directions: what leaves forward is booked when sent, what comes backward when seen,
// as of when it was sent. So the receiver of a frame needs no message of its own, and computing ranks hold nothing up.
// A frame is never early; it is late by as long as nobody calls progress().
//
// Owns the wire below, borrows the clock, which all ranks must share: threads, or processes of one machine. Ranks whose
// clocks differ fail with kUsage as soon as a frame comes from the future.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "transport/shaping/link_ledger.h"
#include "transport/streams/wire.h"

namespace millrace {

class ShapedWire final : public Wire {
 public:
  // `links` by number; those beyond its end, and control, are not shaped.
  ShapedWire(std::unique_ptr<Wire> below, const std::vector<LinkShape>& links, Clock& clock = machine_clock());

  size_t open(const ChannelSpec& spec) override;
  Slot slot(size_t channel, size_t slot) override { return below_->slot(channel, slot); }
  void send(size_t channel, size_t slot, size_t payload_bytes) override;
  bool sent(size_t channel, size_t slot) override { return below_->sent(channel, slot); }
  void receive_again(size_t channel, size_t slot) override { below_->receive_again(channel, slot); }
  Instant progress(std::vector<Arrival>& arrivals) override;

 private:
  struct Channel {
    size_t ledger;  // kUnshaped: none
    Direction direction;
    size_t slots;
    size_t frames = 0;  // arrived
  };
  struct Held {
    Instant due;
    Arrival arrival;
  };

  static constexpr size_t kUnshaped = SIZE_MAX;

  std::unique_ptr<Wire> below_;
  Clock& clock_;
  std::vector<LinkLedger> ledgers_;     // by link
  std::vector<std::deque<Held>> held_;  // by 2 * link + direction, in order of booking
  std::vector<Channel> channels_;
  std::vector<Arrival> seen_;
  size_t held_count_ = 0;
};

}  // namespace millrace
