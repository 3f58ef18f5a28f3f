// Internal to transport/mpi: the communicator behind a group, and return codes as errors.
//
//   check_mpi(MPI_Isend(...), "sending to rank 3");
//   MPI_Comm communicator = group.state().communicator;
//
// Every call of MPI goes through check_mpi: communicators return their errors instead of aborting.
#pragma once

#include <mpi.h>

#include <string_view>

#include "transport/mpi/mpi_session.h"

namespace millrace {

// Fails with kIo, in MPI's words.
void check_mpi(int code, std::string_view what);

struct MpiGroup::State {
  State(MPI_Comm taken, Nanoseconds deadline);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  MPI_Comm communicator;
  int rank = 0;
  int ranks = 1;
  Nanoseconds deadline;  // of calls that all ranks make together
};

}  // namespace millrace
