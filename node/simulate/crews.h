// Internal to node/simulate: devices that go on together. Nothing reaches another device sooner than a link's latency; devices joined by
// a link without latency, or by cores they share, are one crew.
//
//   const std::vector<int32_t> crews = crews_of_devices(network, plan);            // in order, from 0
//   Timeline timeline(crews_of_ids(network, plan, crews));                         // of stations, and of flows behind them
//   const int64_t alone = lookahead_of(network, plan, crews);                      // how long crews may go on by themselves
#pragma once

#include <cstdint>
#include <vector>

#include "node/simulate/network.h"

namespace millrace::simulation {

std::vector<int32_t> crews_of_devices(const Network& network, const Plan& plan);
std::vector<int32_t> crews_of_ids(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device);
// The shortest way from one crew to another, or to another block; kNeverTime: there is none.
int64_t lookahead_of(const Network& network, const Plan& plan, const std::vector<int32_t>& crew_of_device);

}  // namespace millrace::simulation
