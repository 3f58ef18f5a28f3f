// Durations as people type them, and amounts of memory as they read them.
//
//   const double seconds = parse_duration("1h30m", "--time-limit");
//   fmt::print("{}\n", bytes_text(1400000000));                      // "1.4 GB"
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// "90s", "15m", "3h", "1h30m", or plain seconds; at most ten years, which every clock here can add. Fails with kUsage naming the flag.
double parse_duration(std::string_view text, std::string_view flag);
// "1.4 GB", "12.0 kB"
std::string bytes_text(int64_t bytes);

}  // namespace millrace
