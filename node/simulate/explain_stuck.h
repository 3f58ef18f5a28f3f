// Internal to node/simulate: who waits for whom when nothing moves any more.
//
//   fail(ErrorCode::kStandstill, "the simulation deadlocks: {}", explain_stuck(network, plan));
//
// Names the stations that wait for one another in a circle, each with what it waits for, and a way out where something could be larger.
#pragma once

#include <string>

#include "node/simulate/network.h"

namespace millrace::simulation {

std::string explain_stuck(const Network& network, const Plan& plan);

}  // namespace millrace::simulation
