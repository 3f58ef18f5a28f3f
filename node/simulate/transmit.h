// Internal to node/simulate: when a message that is sent now comes, and the link's state after it.
//
//   const InFlight message = transmit(flow, lane, now, end, jitter);       // `end`: of the unit that makes the message
#pragma once

#include "node/simulate/network.h"

namespace millrace::simulation {

InFlight transmit(FlowState& state, LinkSide& lane, int64_t now, int64_t end, int64_t jitter);

}  // namespace millrace::simulation
