// A wire that does to frames what bad cables and bugs do.
//
//   auto wire = std::make_unique<FaultyWire>(hub.wire(0));
//   wire->at_send = [](Slot slot, size_t bytes) { slot.payload[0] ^= std::byte{1}; return Fault::kNone; };
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "transport/streams/wire.h"

namespace millrace::testing_support {

enum class Fault { kNone, kLose, kCutShort };

class FaultyWire final : public Wire {
 public:
  explicit FaultyWire(std::unique_ptr<Wire> below) : Wire(below->rank(), below->ranks()), below_(std::move(below)) {}

  // Called for every frame just before it leaves; may change it.
  std::function<Fault(Slot, size_t payload_bytes)> at_send;

  Channel& open(const ChannelSpec& spec) override {
    channels_.push_back(std::make_unique<FaultyChannel>(*this, below_->open(spec)));
    return *channels_.back();
  }
  Instant progress(std::vector<Arrival>& arrivals) override { return below_->progress(arrivals); }

 private:
  class FaultyChannel final : public Channel {
   public:
    FaultyChannel(FaultyWire& wire, Channel& below) : Channel(below.layout()), wire_(wire), below_(below) {}
    void send(size_t slot, size_t payload_bytes) override {
      const Fault fault = wire_.at_send ? wire_.at_send(this->slot(slot), payload_bytes) : Fault::kNone;
      if (fault == Fault::kLose) return;
      below_.send(slot, fault == Fault::kCutShort ? payload_bytes / 2 : payload_bytes);
    }
    bool sent(size_t slot) override { return below_.sent(slot); }
    void receive_again(size_t slot) override { below_.receive_again(slot); }

   private:
    FaultyWire& wire_;
    Channel& below_;
  };

  std::unique_ptr<Wire> below_;
  std::vector<std::unique_ptr<FaultyChannel>> channels_;
};

}  // namespace millrace::testing_support
