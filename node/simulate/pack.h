// Internal to node/simulate: a block's result as bytes, from one rank to another of the same build.
#pragma once

#include <string>
#include <string_view>

#include "node/simulate/simulate.h"

namespace millrace::simulation {

std::string packed(const SimulationResult& result);
// Fails with kMalformed when bytes are missing or left over.
SimulationResult unpacked(std::string_view bytes);

}  // namespace millrace::simulation
