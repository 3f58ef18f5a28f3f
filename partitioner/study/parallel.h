// A loop whose turns know nothing of each other, on several threads.
//
//   for_each_in_parallel(counts.size(), 2, [&](size_t i) { points[i] = point_at(counts[i]); });
//
// Turns begin in order; what they write must be apart. An error ends the loop and is thrown again here, the one of the
// earliest turn.
#pragma once

#include <cstddef>
#include <functional>

namespace millrace {

// What this machine runs at once, 8 at most: studies are short.
int default_threads();
void for_each_in_parallel(size_t turns, int threads, const std::function<void(size_t)>& turn);

}  // namespace millrace
