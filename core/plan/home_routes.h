// The ways of remotely stored parameters along the ring: which flows carry a home's slice to its user, and its gradients back.
//
//   for (const HomeRoute& route : home_routes(plan))
//     receive(route.parameters.back());                     // at the user
//
// Read from Flow::home. Plain values; a plan that passed validate() has a flow on every link between home and user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

// Of a home whose user is another device.
struct HomeRoute {
  size_t home = 0;                  // index into Plan::homes
  std::vector<int64_t> parameters;  // flows from home to user, in the order they are passed
  std::vector<int64_t> gradients;   // flows from user to home; none where the home makes the gradients itself
};
// In the order of the homes.
std::vector<HomeRoute> home_routes(const Plan& plan);

// The flow of such a way that crosses `link`, which is one of its own.
int64_t flow_across(const Plan& plan, std::span<const int64_t> way, int64_t link);

// "conv1.weight": what flows of parameters and gradients call the slice.
std::string parameter_name(const ParameterHome& home);

}  // namespace millrace
