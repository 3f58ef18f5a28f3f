// How fast a plan says that its engines are.
//
//   const double seconds = planned_seconds(node, shard.unit, engine);       // per image, of one engine
//   const double clock = planned_clock(plan, "vc709");                      // 2e8
//
// Pure functions of the plan.
#pragma once

#include <cstdint>
#include <string>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

class Placement;
struct DeviceDesign;

double planned_seconds(const Node& node, StreamingUnit unit, const PhaseEngine& engine);

// Whether a device's phases and shards take turns on it, as those of GPUs and CPUs do.
bool takes_turns(const Plan& plan, int64_t device);
// Of a device that takes turns, as planned, per sample.
double planned_turns_seconds(const Placement& placement, int64_t device);

// Of a board, as the plan has it; 0: it does not say.
double planned_clock(const Plan& plan, const std::string& board);

// Of a sample, for all that lies in the board's own memory, at its bandwidth: words that are streamed, samples that wait there, and words
// that the plan has there and the hardware on the chip, as the plan counts them, with so many bytes `more`. 0: nothing is there, or the
// plan does not say how fast it is.
double off_chip_seconds(const DeviceDesign& design, const Placement& placement, double more = 0);

}  // namespace millrace
