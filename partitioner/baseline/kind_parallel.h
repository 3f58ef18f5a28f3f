// Strategy `kind`: recurrent layers may be divided by kind of product, x W on one device and the steps on the next.
//
//   Outcome outcome = plan_by_kind(task);
//
// Every other layer stays whole. The chain is a row of units: of a recurrent layer x W, its steps and what follows them, of any other
// group the group; each device takes a run of them, and units of one layer on one device are one part, all of them that layer, undivided.
// What follows is cut off behind steps that a device makes alone. So a layer is divided where that shortens the ring's period
// (core/plan/parts.h says what that means), and the search over all cuts is exact: the least, over cuts, of the slowest device or link,
// where a device's memory and a link's bits are counted as plans have them.
// A device whose shards have engines of their own, a board, makes the steps of one layer, and of what follows them all or nothing: x W is
// on the CPU or GPU before it, which keeps the steps' parameters, sends them for every F and E and makes their gradients of a record
// (core/plan/parts.h). Both sides of that are priced: the elements and their loads there, gradients and memory here, parameters and
// records on the link between.
// Boards side by side share the steps of one layer: any number of them, with the cells divided as is fastest (unit_split.h). A step then
// waits for the largest row of the others to come from the farthest board. Two cards may fill all places in turn (kind_folded.h). Fails
// with kUsage where the network has no recurrent layer, and on pins and cuts.
#pragma once

#include "partitioner/planning/planning.h"

namespace millrace {

Outcome plan_by_kind(const PlanTask& task);
// Fails with kUsage where no layer is recurrent.
void check_recurrent(const Graph& graph);

}  // namespace millrace
