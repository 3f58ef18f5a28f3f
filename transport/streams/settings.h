// What an operator may choose about a transport. The same on every rank.
//
//   TransportSettings settings{.deadline = std::chrono::seconds(5), .checksums = true};
//
// Plain values. Fails with kUsage in check().
#pragma once

#include <cstddef>

#include "transport/streams/clock.h"

namespace millrace {

struct TransportSettings {
  // The longest that a rank waits for a silent neighbour. One that is alive, but waits itself, gets a quarter more, so that
  // the rank beside the culprit is the one that reports it. A rank must call progress() or wait() at least twice per deadline.
  Nanoseconds deadline = std::chrono::seconds(30);
  // CRC32C of every frame in host memory.
  bool checksums = false;
  // Flows with messages up to this size share one queue per link and direction, so that the number of outstanding receives
  // stays small; one copy at either end is the price. With headers a little less than a page: what MPI sends at once.
  size_t eager_bytes = 3968;
  // Slots of such a queue.
  size_t lane_slots = 8;
};

void check(const TransportSettings& settings);

}  // namespace millrace
