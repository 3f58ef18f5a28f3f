#include "node/simulate/shared_cores.h"

#include <algorithm>

#include "core/base/index.h"

namespace millrace::simulation {

void SharedCores::want(int32_t rank, const Turn& turn, int32_t station) {
  SharedRank& shared = item(network_.ranks, rank);
  const std::pair wanted(turn, station);
  const auto place = std::ranges::lower_bound(shared.wanting, wanted);
  if (place == shared.wanting.end() || *place != wanted) shared.wanting.insert(place, wanted);
  queue(rank);
}

void SharedCores::queue(int32_t index) {
  SharedRank& rank = item(network_.ranks, index);
  if (rank.acts || rank.queued || rank.next() == rank.wanting.end()) return;
  rank.queued = true;
  able_ranks_.push(index);
}

std::optional<int32_t> SharedCores::grant() {
  if (network_.free_cores == 0 || able_ranks_.empty()) return std::nullopt;
  SharedRank& rank = item(network_.ranks, able_ranks_.front());
  able_ranks_.pop();
  rank.queued = false;
  rank.acts = true;
  --network_.free_cores;
  const auto next = rank.next();
  const int32_t station = next->second;
  rank.wanting.erase(next);
  return station;
}

void SharedCores::release(int32_t rank, int32_t kept_by) {
  item(network_.ranks, rank).acts = false;
  item(network_.ranks, rank).kept_by = kept_by;
  ++network_.free_cores;
  queue(rank);
}

}  // namespace millrace::simulation
