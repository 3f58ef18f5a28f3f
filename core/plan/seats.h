// Cards that fill several places of a ring (DeviceEntry::seat), and the cables between them.
//
//   const std::vector<int64_t> seat = seats_of(plan.cluster);      // by device: 0, 1, 0, 1, 0
//   const std::vector<int64_t> cable = cables_of(plan.cluster);    // by lane, 2 * link, one more for backward: the first that it shares
//
// A card computes for one of its places at a time, whichever can go on, the first in the ring before others; between two cards there is one
// cable, whose directions all links between their places share. Everything else takes places for devices. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "core/documents/cluster.h"

namespace millrace {

// Some card fills more than one place.
bool folds(const Cluster& cluster);
// By device: the number of its card, in the order of their first places.
std::vector<int64_t> seats_of(const Cluster& cluster);
std::vector<int64_t> cables_of(const Cluster& cluster);

}  // namespace millrace
