// Channels in runs that lie side by side in two layouts: how loops over channels are cut into vectors and divided among
// threads. Internal to core/cpu.
//
//   const std::vector<Run> runs = runs_of(input_layout, output_layout);
//   for (const Run& run : runs) for (lane < run.lanes) ... input[offset(sample, run.channel) + position * block + lane]
//
// At most 16 lanes each; sums per channel that stay inside a run do not depend on how many threads there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/cpu/tensor.h"

namespace millrace::cpu {

inline constexpr int64_t kLanes = 16;

struct Run {
  int64_t channel = 0;
  int64_t lanes = 0;
};

inline std::vector<Run> runs_of(const Layout& a, const Layout& b) {
  std::vector<Run> runs;
  for (int64_t c = 0; c < a.channels;) {
    const int64_t lanes = std::min({kLanes, a.channels - c, a.block - c % a.block, b.block - c % b.block});
    runs.push_back({c, lanes});
    c += lanes;
  }
  return runs;
}

// Calls body with the number of lanes known to the compiler where they fill a vector of AVX-512 or of AVX2, else with the number itself.
template <typename Body>
inline void with_lanes(int64_t lanes, Body body) {
  if (lanes == kLanes) return body(std::integral_constant<int64_t, kLanes>{});
  if (lanes == kLanes / 2) return body(std::integral_constant<int64_t, kLanes / 2>{});
  body(lanes);
}

}  // namespace millrace::cpu
