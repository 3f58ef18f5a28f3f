// Internal to transport/mpi: a sleep that ends when another rank sends. MPI waits by asking again and again, at the cost of whoever else
// needs the core; ranks of one host ring a bell instead, a word in memory they share, after they have sent.
//
//   Doorbells bells(communicator);             // all its ranks together
//   const uint32_t heard = bells.heard();      // before looking for messages
//   if (nothing_came) bells.sleep(heard, 5ms); // until a bell rings that was not heard, a signal comes, or the time is over
//   bells.ring(peer);                          // after sending to it
//
// For ranks that share cores: one that asks keeps another from working. Ringing for a rank that is awake costs one addition. Ranks of
// other hosts cannot be reached, nor any where memory cannot be shared: reaches() says so, and then a wait has to ask. Owns its map of the
// memory (host_memory.h). For the thread that made it.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/index.h"
#include "transport/streams/clock.h"

namespace millrace {

class Doorbells {
 public:
  explicit Doorbells(MPI_Comm communicator);
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  bool reaches(int64_t rank) const { return bells_ != nullptr && item(place_of_, rank) >= 0; }
  // It can be reached.
  void ring(int64_t rank);
  // Ranks of this host outnumber the cores they may use.
  bool crowded() const { return crowded_; }
  // This rank's bell so far.
  uint32_t heard() const;
  // True when it rang.
  bool sleep(uint32_t heard, Nanoseconds at_most);

 private:
  struct Bell;
  void share(MPI_Comm host);
  void count_cores(MPI_Comm host);

  size_t mapped_bytes() const;
  void unmap();

  std::byte* map_ = nullptr;
  Bell* bells_ = nullptr;  // in there, when all have it
  size_t count_ = 0;
  size_t own_ = 0;
  bool crowded_ = false;
  std::vector<int> place_of_;  // by rank; -1: on another host
};

}  // namespace millrace
