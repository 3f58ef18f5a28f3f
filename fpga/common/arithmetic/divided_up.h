// How many parts of a size an amount takes, the last one perhaps not full.
//
//   divided_up(17, 16);       // 2 groups of sixteen lanes for 17 channels
//   rounded_up(17, 16);       // 32 lanes in them
//
// Nothing, and less than nothing, takes no part. Exact up to the largest int64_t; `parts` is at least 1.
#pragma once

#include <cstdint>

namespace millrace {

constexpr int64_t divided_up(int64_t amount, int64_t parts) { return amount <= 0 ? 0 : (amount - 1) / parts + 1; }
constexpr int64_t rounded_up(int64_t amount, int64_t parts) { return divided_up(amount, parts) * parts; }

}  // namespace millrace
