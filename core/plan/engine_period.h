// The period that a plan's engines are sized for, where it counts what is built: the generator sizes them for the same.
//
//   plan.constants.push_back({std::string(kEnginePeriod), 8.03e-3, "modelled"});
//   const double period = engine_period_of(plan);      // 0: the plan does not say
//
// Devices whose memory off chip, or whose links, are slower wait: what an image takes in all can be longer.
// Streams between the engines are as wide as the slowest clock of the ring asks for. Of a plan that leaves slower boards without work it is
// that of the others, and the plan says so:
//
//   const double clock = stream_clock_of(plan);        // 0: that of the slowest board
#pragma once

#include <string_view>

#include "core/documents/plan.h"

namespace millrace {

inline constexpr std::string_view kEnginePeriod = "engine_period_seconds";
inline constexpr std::string_view kStreamClock = "stream_clock_hz";

inline double constant_of(const Plan& plan, std::string_view name) {
  for (const Constant& constant : plan.constants)
    if (constant.name == name) return constant.value;
  return 0;
}

inline double engine_period_of(const Plan& plan) { return constant_of(plan, kEnginePeriod); }
inline double stream_clock_of(const Plan& plan) { return constant_of(plan, kStreamClock); }

}  // namespace millrace
