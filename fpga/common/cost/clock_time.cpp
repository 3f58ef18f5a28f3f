#include "fpga/common/cost/clock_time.h"

#include <algorithm>
#include <limits>

namespace millrace {

namespace {

__extension__ using Wide = __int128;

}  // namespace

int64_t picoseconds_of(int64_t cycles, int64_t clock_hz) {
  const Wide picoseconds = (static_cast<Wide>(cycles) * 1'000'000'000'000 + clock_hz - 1) / clock_hz;
  return static_cast<int64_t>(std::min<Wide>(picoseconds, std::numeric_limits<int64_t>::max()));
}

}  // namespace millrace
