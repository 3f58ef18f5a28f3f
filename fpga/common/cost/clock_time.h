// Cycles of a board's clock as time.
//
//   picoseconds_of(7, 200'000'000);      // 35,000
//
// Exact, and rounded up to a whole picosecond; what no int64_t holds is the largest one.
#pragma once

#include <cstdint>

namespace millrace {

int64_t picoseconds_of(int64_t cycles, int64_t clock_hz);

}  // namespace millrace
