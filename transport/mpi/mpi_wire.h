// Ranks as processes of an MPI job: point to point, with receives posted before the messages come.
//
//   Transport transport(make_ring_wire(session.world()));
//
// All ranks of a group make a wire together: it has a communicator of its own. Between ranks of one host channels lie in memory that both
// have mapped (host_channels.h), and nothing below applies to them but the sleep. To other hosts channels become tags; their upper bound is
// checked. Frames beyond an int's count travel in blocks of 4 KiB. Slots are MPI_Alloc_mem's, so that network cards may read and write
// them. progress() is one MPI_Testsome over the next frame of each channel. Where ranks of one host outnumber its cores, a wait sleeps
// until a peer rings (doorbells.h). Return codes are checked: Error(kIo) names peer and tag. Used by the thread that made the session. Dies
// before the session; its destructor gives messages under way a second to leave, since memory that is being sent cannot be freed.
#pragma once

#include <cstdint>
#include <memory>

#include "transport/mpi/mpi_session.h"
#include "transport/streams/wire.h"

namespace millrace {

struct MpiWireSettings {
  // Larger messages travel in blocks. For tests: frames of more than 2 GiB are rare.
  int64_t largest_count = int64_t{1} << 30;
  // Between ranks of one host, where they can. False: these, too, take MPI.
  bool share_memory = true;
};

// Between different ranks alone.
std::unique_ptr<Wire> make_mpi_wire(const MpiGroup& group, const MpiWireSettings& settings = {});
// Also from a rank to itself, in memory: what a Transport wants.
std::unique_ptr<Wire> make_ring_wire(const MpiGroup& group, const MpiWireSettings& settings = {});

}  // namespace millrace
