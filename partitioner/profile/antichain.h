// All the places where a graph that branches may be cut: between two cuts a stage may hold one branch and not the other.
//
//   if (const auto cuts = antichain_cuts(profile, kMostCuts)) ...        // nothing: there are more than that
//
// A cut is a set of nodes closed under "depends on", as in PipeDream's antichain graph (an antichain is the front of such a
// set); every order of the nodes cuts in some of these places only, so the optimum over all of them is never slower. What
// crosses a cut is every tensor made before it and taken behind it, once.
// Chains of k nodes side by side have (k+1)^branches cuts between fork and join: few for residual networks, tens of thousands
// for Inception, hopelessly many where dozens of branches meet. O(cuts x nodes), and memory for a bit each.
#pragma once

#include <cstdint>
#include <optional>

#include "partitioner/profile/cut_space.h"
#include "partitioner/profile/profile.h"

namespace millrace {

// A few seconds' search for sixteen devices.
inline constexpr int64_t kMostCuts = 20'000;

std::optional<CutSpace> antichain_cuts(const Profile& profile, int64_t most = kMostCuts);

}  // namespace millrace
