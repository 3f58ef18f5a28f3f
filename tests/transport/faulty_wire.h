// A wire that does to frames what bad cables and bugs do.
//
//   auto wire = std::make_unique<FaultyWire>(hub.wire(0));
//   wire->at_send = [](Slot slot, size_t bytes) { slot.payload[0] ^= std::byte{1}; return Fault::kNone; };
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "transport/streams/frame.h"
#include "transport/streams/wire.h"

namespace millrace::testing_support {

enum class Fault { kNone, kLose, kCutShort };

class FaultyWire final : public Wire {
 public:
  explicit FaultyWire(std::unique_ptr<Wire> below) : Wire(below->rank(), below->ranks()), below_(std::move(below)) {}

  // Called for every frame just before it leaves; may change it.
  std::function<Fault(Slot, size_t payload_bytes)> at_send;

  size_t open(const ChannelSpec& spec) override { return below_->open(spec); }
  Slot slot(size_t channel, size_t slot) override { return below_->slot(channel, slot); }
  void send(size_t channel, size_t slot, size_t payload_bytes) override {
    const Fault fault = at_send ? at_send(below_->slot(channel, slot), payload_bytes) : Fault::kNone;
    if (fault == Fault::kLose) return;
    below_->send(channel, slot, fault == Fault::kCutShort ? payload_bytes / 2 : payload_bytes);
  }
  bool sent(size_t channel, size_t slot) override { return below_->sent(channel, slot); }
  void receive_again(size_t channel, size_t slot) override { below_->receive_again(channel, slot); }
  Instant progress(std::vector<Arrival>& arrivals) override { return below_->progress(arrivals); }

 private:
  std::unique_ptr<Wire> below_;
};

}  // namespace millrace::testing_support
