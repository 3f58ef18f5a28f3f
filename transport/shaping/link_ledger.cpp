#include "transport/shaping/link_ledger.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/error.h"

namespace millrace {

std::vector<LinkShape> link_shapes(const Plan& plan) {
  std::vector<LinkShape> shapes;
  for (const Link& link : plan.links)
    shapes.push_back({.forward_bits_per_second = static_cast<double>(link.forward_bits_per_second),
                      .backward_bits_per_second = static_cast<double>(link.backward_bits_per_second),
                      .shared_bits_per_second = static_cast<double>(link.shared_bits_per_second),
                      .latency = Nanoseconds((link.latency_picoseconds + 500) / 1000)});
  return shapes;
}

LinkLedger::LinkLedger(const LinkShape& shape) : shape_(shape) {
  for (const auto& [name, rate] :
       {std::pair{"forward", shape.forward_bits_per_second}, std::pair{"backward", shape.backward_bits_per_second},
        std::pair{"shared", shape.shared_bits_per_second}})
    if (!std::isfinite(rate) || rate < 0)
      fail(ErrorCode::kUsage, "a link of {} bits/s {}; expected a positive number, or 0 for no limit", rate, name);
  if (shape.latency < Nanoseconds(0)) fail(ErrorCode::kUsage, "a link with a latency of {} ns", shape.latency.count());
}

Instant LinkLedger::book(Direction direction, int64_t bits, Instant ready) {
  const bool forward = direction == Direction::kForward;
  const double rate = forward ? shape_.forward_bits_per_second : shape_.backward_bits_per_second;
  double& free = forward ? forward_free_ : backward_free_;
  const double own = rate > 0 ? 1e9 * static_cast<double>(bits) / rate : 0;
  const double shared = shape_.shared_bits_per_second > 0 ? 1e9 * static_cast<double>(bits) / shape_.shared_bits_per_second : 0;
  const double start = std::max({static_cast<double>(ready.count()), free, shape_.shared_bits_per_second > 0 ? shared_free_ : 0});
  const double end = start + std::max(own, shared);
  free = end;
  shared_free_ = start + shared;
  return Instant(std::llround(end)) + shape_.latency;
}

}  // namespace millrace
