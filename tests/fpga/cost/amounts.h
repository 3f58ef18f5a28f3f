// What tests of the boards' cost model look up: an amount by its name, and arithmetic in sixteen bits.
//
//   EXPECT_EQ(amount(demand.details, "weights"), 16 * 64);
#pragma once

#include <string_view>
#include <vector>

#include "core/documents/plan.h"

namespace millrace::testing_support {

inline constexpr Arithmetic kSixteenBits{.compute = ElementType::kFixed16, .wire = ElementType::kFixed16};

// 0 where there is none of that name.
inline double amount(const std::vector<NamedAmount>& amounts, std::string_view name) {
  for (const NamedAmount& entry : amounts)
    if (entry.name == name) return entry.amount;
  return 0;
}

}  // namespace millrace::testing_support
