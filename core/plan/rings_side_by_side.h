// How many rings like a plan's train side by side, each with its share of the mini-batch: chosen with the plan, and kept with it.
//
//   plan.constants.push_back({std::string(kRingsSideBySide), 4, "chosen"});
//   const int64_t rings = rings_side_by_side(plan);      // 1: the plan does not say
//
// The plan is of one of them: its mini-batch is what that one takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/documents/plan.h"

namespace millrace {

inline constexpr std::string_view kRingsSideBySide = "rings_side_by_side";

inline int64_t rings_side_by_side(const Plan& plan) {
  for (const Constant& constant : plan.constants)
    if (constant.name == kRingsSideBySide) return constant.value >= 1 && constant.value < 1e6 ? static_cast<int64_t>(constant.value) : 1;
  return 1;
}

}  // namespace millrace
