// Internal to node/simulate: devices that go on together. Nothing reaches another device sooner than a link's latency; devices joined by
// a link without latency, or by cores they share, are one logical process.
//
//   const std::vector<int32_t> processes = processes_of_devices(network, plan);            // in order, from 0
//   Timeline timeline(processes_of_ids(network, plan, processes));                         // of stations, and of flows behind them
//   const int64_t alone = lookahead_of(network, plan, processes);                      // how long processes may go on by themselves
#pragma once

#include <cstdint>
#include <vector>

#include "node/simulate/network.h"

namespace millrace::simulation {

std::vector<int32_t> processes_of_devices(const Network& network, const Plan& plan);
// Of a whole ring: one process where all of it stays in the cache anyway, and turns of many would be for nothing.
std::vector<int32_t> processes_for_pace(const Network& network, const Plan& plan);
std::vector<int32_t> processes_of_ids(const Network& network, const Plan& plan, const std::vector<int32_t>& process_of_device);
// The shortest way from one process to another, or to another block; kNeverTime: there is none.
int64_t lookahead_of(const Network& network, const Plan& plan, const std::vector<int32_t>& process_of_device);

}  // namespace millrace::simulation
