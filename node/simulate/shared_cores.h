// Internal to node/simulate: devices that share processor cores, as the ranks of a trainer on one machine do.
//
//   SharedCores cores(network);
//   cores.want(rank, turn, station);                    // it could act, but for a core
//   while (const auto station = cores.grant()) ...      // which acts now
//   cores.release(rank);
//
// A rank acts for one of its devices at a time, as their turns are (core/plan/turn.h), and so many ranks act at once as there are cores, in
// the order in which they became able to. Borrows the network.
#pragma once

#include <cstdint>
#include <optional>

#include "core/plan/turn.h"
#include "node/simulate/network.h"

namespace millrace::simulation {

class SharedCores {
 public:
  explicit SharedCores(Network& network) : network_(network) {}

  void want(int32_t rank, const Turn& turn, int32_t station);
  std::optional<int32_t> grant();
  // `kept_by`: the only station that may be next; -1: any.
  void release(int32_t rank, int32_t kept_by = -1);

 private:
  void queue(int32_t rank);

  Network& network_;
  Queue<int32_t> able_ranks_;  // to act, but for a core
};

}  // namespace millrace::simulation
