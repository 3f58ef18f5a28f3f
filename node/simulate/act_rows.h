// Internal to node/simulate: the rows that FP has taken in and PG has yet to let go of, in a layer's Act-RAM.
//
//   if (!has_room(network, station, end)) ...                      // FP waits
//   if (begin_rows(network, station, now, end)) ...                // a unit starts: true where there may be room for FP from now on
//   if (end_rows(network, station, now)) ...                       // and ends
//
// Of stations without an Act-RAM nothing is asked.
#pragma once

#include "node/simulate/network.h"

namespace millrace::simulation {

// Whether the next unit's rows fit; `end` is put off until the place of those that are being emptied is free.
bool has_room(const Network& network, const Station& s, int64_t& end);
bool begin_rows(Network& network, const Station& s, int64_t now, int64_t end);
bool end_rows(Network& network, const Station& s, int64_t now);

}  // namespace millrace::simulation
