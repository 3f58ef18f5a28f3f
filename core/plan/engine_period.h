// The period that a plan's engines are sized for, where it counts what is built: the generator sizes them for the same.
//
//   plan.constants.push_back({std::string(kEnginePeriod), 8.03e-3, "modelled"});
//   const double period = engine_period_of(plan);      // 0: the plan does not say
//
// Devices whose memory off chip, or whose links, are slower wait: what an image takes in all can be longer.
#pragma once

#include <string_view>

#include "core/documents/plan.h"

namespace millrace {

inline constexpr std::string_view kEnginePeriod = "engine_period_seconds";

inline double engine_period_of(const Plan& plan) {
  for (const Constant& constant : plan.constants)
    if (constant.name == kEnginePeriod) return constant.value;
  return 0;
}

}  // namespace millrace
