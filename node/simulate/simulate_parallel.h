// One simulation by several ranks: contiguous blocks of devices, each as far ahead in virtual time as its neighbours' promises
// and the latency of the links between them allow. No barrier, no rollback.
//
//   Transport transport(make_ring_wire(session.world()));
//   const SimulationResult result = simulate(plan, graph, {.samples = 64}, transport);     // whole on rank 0, empty elsewhere
//
// The result is that of one rank, to the bit (events and all times; state_bytes and wall_seconds are each rank's own, added up
// and the longest). All ranks call it with the same plan and options; anything else is kMismatch.
// Of a folded ring (core/plan/seats.h) every rank simulates the whole.
// Fails as simulate() does, on every rank; with kMismatch where two ranks would meet at a link without latency, which leaves
// nothing to look ahead by; and with the transport's kTimeout when another rank is gone.
// Borrows the transport, which must not have been opened, and closes it.
#pragma once

#include "node/simulate/simulate.h"
#include "transport/streams/transport.h"

namespace millrace {

SimulationResult simulate(const Plan& plan, const Graph& graph, const SimulationOptions& options, Transport& transport);

}  // namespace millrace
