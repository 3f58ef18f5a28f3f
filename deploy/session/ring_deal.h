// How the devices of a ring are dealt to its ranks (transport/streams/ring_layout.h): --deal, and what suits where nobody says.
//
//   const Deal deal = chosen_deal(request.deal, plan, {.ranks = 2, .hosts = 1, .on_processors = true});
//
// A function of the plan and of where its ranks are, never of timing; weights are the same either way. In turns where the ring drains
// between updates and its ranks compute for several devices each: then no rank waits for half of the ring to fill. In blocks
// elsewhere: a ring that never drains gains nothing by it, messages between hosts cost more than waiting, and rings side by side must
// agree. Fails with kUsage naming the flag.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/documents/plan.h"
#include "transport/streams/ring_layout.h"

namespace millrace {

struct RankPlaces {
  int64_t ranks = 1;           // of the ring
  int64_t hosts = 1;           // of all ranks
  int64_t replicas = 1;        // rings side by side
  bool on_processors = false;  // every device computes on the thread of its rank
};

// `word`: auto, blocks, turns; empty is auto.
void check_deal(std::string_view word);
Deal chosen_deal(std::string_view word, const Plan& plan, const RankPlaces& places);

}  // namespace millrace
