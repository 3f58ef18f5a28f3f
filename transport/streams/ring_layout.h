// Which rank hosts which devices: device d of D lives on rank floor(d * R / D).
//
//   const RingLayout layout = ring_layout(/*devices=*/7, /*ranks=*/3);
//   layout.rank_of(4);                                  // 1
//   for (int64_t d = layout.first_device(1); d < layout.end_device(1); ++d) ...
//
// Every rank hosts at least one device, and its devices are consecutive: neighbouring devices live on one rank or on
// neighbouring ranks. Link l joins device l and l+1; link D-1 closes the ring. More ranks than devices is kUsage.
#pragma once

#include <cstdint>

namespace millrace {

struct RingLayout {
  int64_t devices = 1;
  int64_t ranks = 1;

  int64_t rank_of(int64_t device) const { return device * ranks / devices; }
  int64_t first_device(int64_t rank) const { return (rank * devices + ranks - 1) / ranks; }
  int64_t end_device(int64_t rank) const { return first_device(rank + 1); }
};

RingLayout ring_layout(int64_t devices, int64_t ranks);

}  // namespace millrace
