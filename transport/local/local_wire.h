// Ranks as threads of one process: channels whose slots both ends share, so that nothing is copied.
//
//   LocalHub hub(/*ranks=*/3);
//   std::thread other([&] { Transport transport(hub.wire(1)); ... });
//   Transport transport(hub.wire(0));
//
// Also the loop inside a rank: a hub of one, whose only rank is its own peer (split_wire.h).
// A wire is used by one thread at a time, and wires of different ranks by different threads. Wires share ownership of what
// they carry: hub and wires may die in any order. A frame counts as sent when the receiver has released it.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/streams/wire.h"

namespace millrace {

class LocalHub {
 public:
  explicit LocalHub(int64_t ranks);

  // One per rank.
  std::unique_ptr<Wire> wire(int64_t rank);
  // Slots allocated so far.
  size_t allocated_bytes() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

// A wire from a rank of `ranks` to itself.
std::unique_ptr<Wire> make_loopback_wire(int64_t rank, int64_t ranks);

}  // namespace millrace
