#include "transport/local/split_wire.h"

#include <algorithm>

namespace millrace {

SplitWire::SplitWire(std::unique_ptr<Wire> inside, std::unique_ptr<Wire> outside)
    : Wire(outside->rank(), outside->ranks()), inside_(std::move(inside)), outside_(std::move(outside)) {}

size_t SplitWire::open(const ChannelSpec& spec) {
  const bool self = spec.peer == rank();
  Wire& wire = self ? *inside_ : *outside_;
  places_.push_back({&wire, wire.open(spec)});
  (self ? inside_numbers_ : outside_numbers_).push_back(places_.size() - 1);
  return places_.size() - 1;
}

Slot SplitWire::slot(size_t channel, size_t slot) { return places_[channel].wire->slot(places_[channel].channel, slot); }

void SplitWire::send(size_t channel, size_t slot, size_t payload_bytes) {
  places_[channel].wire->send(places_[channel].channel, slot, payload_bytes);
}

bool SplitWire::sent(size_t channel, size_t slot) { return places_[channel].wire->sent(places_[channel].channel, slot); }

void SplitWire::receive_again(size_t channel, size_t slot) { places_[channel].wire->receive_again(places_[channel].channel, slot); }

Instant SplitWire::progress(std::vector<Arrival>& arrivals) {
  Instant next = kNever;
  progress_one(*inside_, inside_numbers_, arrivals, next);
  progress_one(*outside_, outside_numbers_, arrivals, next);
  return next;
}

void SplitWire::progress_one(Wire& wire, const std::vector<size_t>& numbers, std::vector<Arrival>& arrivals, Instant& next) {
  if (numbers.empty()) return;
  const size_t before = arrivals.size();
  next = std::min(next, wire.progress(arrivals));
  for (size_t i = before; i < arrivals.size(); ++i) arrivals[i].channel = numbers[arrivals[i].channel];
}

}  // namespace millrace
