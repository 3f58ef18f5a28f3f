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

  ~ShapedWire() override;

  Channel& open(const ChannelSpec& spec) override;
  Instant progress(std::vector<Arrival>& arrivals) override;
  Waker* waker() override { return below_->waker(); }

 private:
  class ShapedChannel;
  // What arrives on a channel of the wire below.
  struct Incoming {
    Channel* channel;
    LinkLedger* ledger;  // null: not shaped
    Direction direction;
    size_t queue;  // in held_
    size_t token;  // of the channel's user
    size_t slots;
    size_t slot = 0;  // of the next frame
  };
  struct Held {
    Instant due;
    Arrival arrival;
  };

  LinkLedger* ledger_of(const ChannelSpec& spec);

  std::unique_ptr<Wire> below_;
  Clock& clock_;
  std::vector<LinkLedger> ledgers_;     // by link
  std::vector<std::deque<Held>> held_;  // by link and direction, in order of booking
  std::vector<std::unique_ptr<ShapedChannel>> channels_;
  std::vector<Incoming> incoming_;  // by the token that the wire below reports
  std::vector<Arrival> seen_;
  size_t held_count_ = 0;
};

}  // namespace millrace
