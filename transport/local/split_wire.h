// One wire of two: channels from the rank to itself go over one, all others over the other.
//
//   auto wire = std::make_unique<SplitWire>(make_loopback_wire(rank, ranks), make_mpi_wire(group));
//
// Owns both.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "transport/streams/wire.h"

namespace millrace {

class SplitWire final : public Wire {
 public:
  SplitWire(std::unique_ptr<Wire> inside, std::unique_ptr<Wire> outside)
      : Wire(outside->rank(), outside->ranks()), inside_(std::move(inside)), outside_(std::move(outside)) {}

  Channel& open(const ChannelSpec& spec) override {
    if (spec.peer != rank()) return outside_->open(spec);
    inside_used_ = true;
    return inside_->open(spec);
  }
  Instant progress(std::vector<Arrival>& arrivals) override {
    const Instant next = inside_used_ ? inside_->progress(arrivals) : kNoInstant;
    return std::min(next, outside_->progress(arrivals));
  }
  // What a rank sends to itself it finds when it looks again, which it does before it sleeps.
  Waker* waker() override { return outside_->waker(); }

 private:
  std::unique_ptr<Wire> inside_;
  std::unique_ptr<Wire> outside_;
  bool inside_used_ = false;
};

}  // namespace millrace
