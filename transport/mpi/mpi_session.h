// One process of an MPI job, from MPI_Init to MPI_Finalize or to the end of everybody.
//
//   int main(int argc, char** argv) {
//     return run_with_mpi({}, [&](MpiSession& session) {
//       Transport transport(make_ring_wire(session.world()));
//       ...
//       return 0;
//     });
//   }
//
// An MPI job knows one way to fail: MPI_Abort, which ends all ranks at once. run_with_mpi logs an Error that leaves its body and aborts
// with its exit status (core/base/error.h): mpirun then exits with it.
//   75   a deadline passed: somebody stopped, hangs or was cut off; starting again from the last checkpoint may help
//   1, 2, 3   as the command alone: failed, wrong usage, infeasible
//   4         likewise: interrupted, with everything saved
//   137       a rank was killed (128 + SIGKILL), said by mpirun itself about a second later
//   205       a host crashed or was cut off: mpirun lost its daemon there, with launch_arguments after about five seconds
// MPI is initialised for one thread that calls it (MPI_THREAD_FUNNELED). What runs well here is set before, as far as a
// program can (mpi_launch.h). Initialising and finalising, which wait for others, end the process with status 75 when they
// pass the deadline: a rank that stopped cannot keep the others.
// One session per process, on the thread that made it; wires made from it die before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/base/error.h"
#include "transport/streams/clock.h"

namespace millrace {

// A set of ranks that share a numbering. Copies share the communicator, which is freed with the last.
class MpiGroup {
 public:
  struct State;
  explicit MpiGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}
  int64_t rank() const;
  int64_t ranks() const;
  // The same ranks with a communicator of their own. All ranks of the group call it.
  MpiGroup copy() const;
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

struct MpiSettings {
  // Of initialising, splitting and finalising.
  Nanoseconds deadline = std::chrono::seconds(30);
};

class MpiSession {
 public:
  explicit MpiSession(const MpiSettings& settings = {});
  // Finalises, or aborts the job when an exception is on its way out.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  // True in a process that mpirun, srun or the like started: only then is there somebody to talk to.
  static bool launched();
  // Before saying what every rank finds for itself: a mistake on the command line, say. Returns at once on rank 0, launched or not, which
  // by its own end ends the others; elsewhere after a while, for what only that rank has found. Works before a session is there.
  static void wait_for_first_rank();

  int64_t rank() const;
  int64_t ranks() const;
  // All ranks, with a communicator of its own.
  MpiGroup world() const;
  // All ranks call it: those with the same colour form a group, ordered by key. Replicas: split(rank_in_ring, replica).
  MpiGroup split(int64_t colour, int64_t key) const;
  std::string host() const;

  [[noreturn]] void abort(int status);

 private:
  MpiSettings settings_;
  std::shared_ptr<MpiGroup::State> world_;
};

// Session, body, and what becomes of an Error; returns the body's status. When that is not 0, mpirun exits with it, too: at once, or
// for kExitInterrupted, which all ranks have agreed on, when all have left in order.
int run_with_mpi(const MpiSettings& settings, const std::function<int(MpiSession&)>& body);

}  // namespace millrace
