// Devices that share processor cores, as the ranks of a trainer on one machine do: a rank acts for one of its devices at a time,
// the lowest that can act, and so many ranks act at once as there are cores, in the order in which they became able to.
#include <algorithm>

#include "core/base/check.h"
#include "node/simulate/engine.h"

namespace millrace::simulation {

// True when it has been granted; else it is noted, and granted at the end of this moment or later.
bool Engine::core_granted(int32_t index, Station& s) {
  if (granted_ == index) return true;
  const int32_t rank = network_.turns[static_cast<size_t>(s.turns)].rank;
  SharedRank& shared = network_.ranks[static_cast<size_t>(rank)];
  const auto place = std::lower_bound(shared.wanting.begin(), shared.wanting.end(), index);
  if (place == shared.wanting.end() || *place != index) shared.wanting.insert(place, index);
  queue_rank(rank);
  block(s, Cause::kCore, -1, false);
  return false;
}

void Engine::queue_rank(int32_t index) {
  SharedRank& rank = network_.ranks[static_cast<size_t>(index)];
  if (rank.acts || rank.queued || rank.wanting.empty()) return;
  rank.queued = true;
  able_ranks_.push(index);
}

bool Engine::grant_core() {
  if (network_.free_cores == 0 || able_ranks_.empty()) return false;
  SharedRank& rank = network_.ranks[static_cast<size_t>(able_ranks_.front())];
  able_ranks_.pop();
  rank.queued = false;
  rank.acts = true;
  --network_.free_cores;
  granted_ = rank.wanting.front();
  rank.wanting.erase(rank.wanting.begin());
  try_station(granted_);
  MILLRACE_CHECK(station(granted_).running, "a core was granted to device {}, which cannot act", station(granted_).device);
  granted_ = -1;
  return true;
}

void Engine::free_core(const Station& s) {
  const int32_t rank = network_.turns[static_cast<size_t>(s.turns)].rank;
  if (rank < 0) return;
  network_.ranks[static_cast<size_t>(rank)].acts = false;
  ++network_.free_cores;
  queue_rank(rank);
}

}  // namespace millrace::simulation
