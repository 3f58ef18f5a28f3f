#include "transport/streams/ring_layout.h"

#include "core/base/error.h"

namespace millrace {

std::string_view name_of(Deal deal) { return deal == Deal::kTurns ? "turns" : "blocks"; }

std::vector<int64_t> RingLayout::devices_of(int64_t rank) const {
  std::vector<int64_t> hosted;
  for (int64_t device = 0; device < devices; ++device)
    if (rank_of(device) == rank) hosted.push_back(device);
  return hosted;
}

bool can_take_turns(int64_t devices, int64_t ranks) {
  const int64_t last = (devices - 1) % ranks;  // beside rank 0, or rank 0 itself
  return last <= 1 || last == ranks - 1;
}

RingLayout ring_layout(int64_t devices, int64_t ranks, Deal deal) {
  constexpr int64_t kMost = int64_t{1} << 30;  // their product stays an int64
  if (devices < 1 || devices > kMost) fail(ErrorCode::kUsage, "a ring of {} devices; expected 1 to {}", devices, kMost);
  if (ranks < 1) fail(ErrorCode::kUsage, "a ring of {} ranks; expected at least 1", ranks);
  if (ranks > devices)
    fail(ErrorCode::kUsage, "{} ranks for {} device(s); a rank hosts at least one device: start {} ranks or fewer", ranks, devices,
         devices);
  if (deal == Deal::kTurns && !can_take_turns(devices, ranks))
    fail(
        ErrorCode::kUsage,
        "{} devices dealt in turns to {} ranks: device {} would be on rank {}, no neighbour of rank 0, which has device 0; deal blocks, or "
        "start another number of ranks",
        devices, ranks, devices - 1, (devices - 1) % ranks);
  return {.devices = devices, .ranks = ranks, .deal = deal};
}

}  // namespace millrace
