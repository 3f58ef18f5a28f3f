// What a command's plans count: --accounting full|fpdeep.
//
//   PlanTask task = ...;
//   account(task, accounting_of(flags.accounting, Accounting::kFull));
//
// Full accounting asks the simulator what a mini-batch takes, updates included, and the generator what waits in the memory outside; the
// planner itself knows neither.
#pragma once

#include <memory>
#include <string>

#include "fpga/conv_ce/generator/ring_waiting.h"
#include "partitioner/planning/planning.h"

namespace millrace {

// Help, by what is usual.
inline constexpr const char* kFullAccounting =
    "what figures count: full (updates, drains, weights off chip), or fpdeep, which has them for nothing, as the paper [full]";
inline constexpr const char* kFpdeepAccounting =
    "what figures count: full (updates, drains, weights off chip), or fpdeep, which has them for nothing, as the paper [fpdeep]";

// Between rings side by side, per device and direction, as `simulate --replicas` has it unless --replica-gbps says otherwise.
inline constexpr double kReplicaGbps = 10;

// Of a flag that may be empty. Fails with kUsage on any other word.
Accounting accounting_of(const std::string& flag, Accounting usual);

// Sets the options' accounting, and what it takes. `rooms`: learns the rooms of the rings that are looked at, for check_ring().
void account(PlanTask& task, Accounting accounting, const std::shared_ptr<KnownRooms>& rooms = nullptr);

}  // namespace millrace
