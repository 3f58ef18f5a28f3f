// Which rank hosts which devices: one function decides it, and whatever needs to know asks it.
//
//   const RingLayout layout = ring_layout(/*devices=*/7, /*ranks=*/3);        // blocks: 0 0 0 1 1 2 2
//   layout.rank_of(4);                                                        // 1
//   for (const int64_t d : layout.devices_of(1)) ...                          // 3, 4
//   ring_layout(8, 2, Deal::kTurns).devices_of(1);                            // 1, 3, 5, 7
//
//   blocks   device d of D on rank floor(d * R / D): consecutive devices, and R messages go from rank to rank per round
//   turns    device d on rank d modulo R: every message goes from rank to rank, and filling and draining the ring keeps all ranks at
//            work sooner
//
// Every rank hosts at least one device, in ascending order, rank 0 the first. Neighbouring devices live on one rank or on neighbouring
// ranks. Link l joins device l and l+1; link D-1 closes the ring. More ranks than devices is kUsage, and so are turns after which
// the link that closes the ring would join ranks that are no neighbours.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace {

enum class Deal : uint8_t { kBlocks, kTurns };
std::string_view name_of(Deal deal);

struct RingLayout {
  int64_t devices = 1;
  int64_t ranks = 1;
  Deal deal = Deal::kBlocks;

  int64_t rank_of(int64_t device) const { return deal == Deal::kTurns ? device % ranks : device * ranks / devices; }
  std::vector<int64_t> devices_of(int64_t rank) const;
};

RingLayout ring_layout(int64_t devices, int64_t ranks, Deal deal = Deal::kBlocks);
// Whether the ring of ranks has neighbours wherever the ring of devices has.
bool can_take_turns(int64_t devices, int64_t ranks);

}  // namespace millrace
