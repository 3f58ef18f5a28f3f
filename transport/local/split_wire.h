// One wire of two: channels from the rank to itself go over one, all others over the other.
//
//   auto wire = std::make_unique<SplitWire>(make_loopback_wire(rank, ranks), make_mpi_wire(group));
//
// Owns both.
#pragma once

#include <memory>
#include <vector>

#include "transport/streams/wire.h"

namespace millrace {

class SplitWire final : public Wire {
 public:
  SplitWire(std::unique_ptr<Wire> inside, std::unique_ptr<Wire> outside);

  size_t open(const ChannelSpec& spec) override;
  Slot slot(size_t channel, size_t slot) override;
  void send(size_t channel, size_t slot, size_t payload_bytes) override;
  bool sent(size_t channel, size_t slot) override;
  void receive_again(size_t channel, size_t slot) override;
  Instant progress(std::vector<Arrival>& arrivals) override;

 private:
  struct Place {
    Wire* wire;
    size_t channel;
  };
  void progress_one(Wire& wire, const std::vector<size_t>& numbers, std::vector<Arrival>& arrivals, Instant& next);

  std::unique_ptr<Wire> inside_;
  std::unique_ptr<Wire> outside_;
  std::vector<Place> places_;           // by our channel number
  std::vector<size_t> inside_numbers_;  // ours, by the number there
  std::vector<size_t> outside_numbers_;
};

}  // namespace millrace
