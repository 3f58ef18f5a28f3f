// Internal to transport/mpi: a deadline for calls that wait for other ranks and take none themselves.
//
//   const Watchdog watchdog("joining the MPI job", deadline);
//   MPI_Init_thread(...);
//
// When the deadline passes first, it says so in the log and ends the process with kExitTimeout; mpirun then ends the others. A thread of
// its own, which calls no MPI. Borrows the text.
#pragma once

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/base/log.h"
#include "transport/mpi/mpi_session.h"

namespace millrace {

class Watchdog {
 public:
  Watchdog(std::string_view what, Nanoseconds deadline)
      : thread_([this, what, deadline] {
          std::unique_lock lock(mutex_);
          if (done_changed_.wait_for(lock, deadline, [this] { return done_; })) return;
          log::error("{} took longer than the deadline of {:g} s: a rank has stopped, hangs or was cut off", what,
                     std::chrono::duration<double>(deadline).count());
          _exit(kExitTimeout);
        }) {}
  ~Watchdog() {
    {
      const std::scoped_lock lock(mutex_);
      done_ = true;
    }
    done_changed_.notify_one();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace millrace
