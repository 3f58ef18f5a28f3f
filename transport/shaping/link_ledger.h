// When bits leave and arrive on a link of given speed: the book of one link, both directions.
//
//   LinkLedger ledger({.forward_bits_per_second = 10e9, .latency = 500ns});
//   const Instant arrives = ledger.book(Direction::kForward, bits, now);
//
// A frame starts when it is ready, its direction is free and the shared budget has room; it takes bits / bandwidth, and
// arrives a latency later. Frames of one direction arrive in the order of their booking. Deterministic; exact to a
// nanosecond per frame, and rounding does not add up.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "transport/streams/clock.h"

namespace millrace {

struct LinkShape {
  double forward_bits_per_second = 0;  // 0: unlimited
  double backward_bits_per_second = 0;
  double shared_bits_per_second = 0;  // both directions together
  Nanoseconds latency{0};
  bool shapes() const {
    return forward_bits_per_second > 0 || backward_bits_per_second > 0 || shared_bits_per_second > 0 || latency > Nanoseconds(0);
  }
};

// The links of a plan as it promises them.
std::vector<LinkShape> link_shapes(const Plan& plan);

class LinkLedger {
 public:
  explicit LinkLedger(const LinkShape& shape);

  Instant book(Direction direction, int64_t bits, Instant ready);
  const LinkShape& shape() const { return shape_; }

 private:
  LinkShape shape_;
  // In nanoseconds, with fractions: small frames on fast links take less than one.
  double forward_free_ = 0;
  double backward_free_ = 0;
  double shared_free_ = 0;
};

}  // namespace millrace
