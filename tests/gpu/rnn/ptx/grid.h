// A grid of threads that run PTX, all blocks resident at once, over a memory as weak as PTX allows.
//
//   Statistics found = run(entry, {.blocks = 4, .threads = 256, .shared_bytes = 9000, .schedule = Schedule::kLate, .seed = 7},
//                          bytes_of_parameters, memory);
//
// A thread is a program counter and registers, so any of them can stop behind any instruction; it needs no stack and no fibre. What
// threads write to each other depends on the schedule:
//   kInTurn  each as far as it gets; every write is seen at once
//   kLate    who became ready last goes first; weak writes are seen by others of the block behind the next barrier only, by other blocks
//            behind a release only; weak reads of another block's data see old values until an acquire; relaxed writes of a
//            turn become visible a turn later, the last first; so do numbers that are sent to another block of the cluster
//   kRandom  any thread for a few instructions, with even seeds some warps less often; writes become visible at any moment that the
//            rules of kLate allow, in any order, also between the elements of a vector access
// Throws GridError: threads that wait for ever, lanes that do not meet, accesses outside of what is allocated, reads through the read-only
// path of what the kernel writes. It models no time, no asynchronous copies but what blocks of a cluster send each other. One run at a time
// per object.
#pragma once

#include <functional>

#include "tests/gpu/rnn/ptx/module.h"

namespace millrace::rnn::ptx {

class GridError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Schedule { kInTurn, kLate, kRandom };

struct Launch {
  int blocks = 1;
  int threads = 32;
  int cluster = 1;       // blocks
  int shared_bytes = 0;  // dynamic
  Schedule schedule = Schedule::kInTurn;
  unsigned seed = 1;
  int missing_blocks = 0;  // the last ones, which never become resident
  unsigned long long most_instructions = 40'000'000'000ULL;
};

// What the second thread of the first block, which publishes a state, has done: from an even number of barriers to an odd one (finishing,
// gathering) and from an odd one to an even one (multiplying, summing).
struct Chain {
  long long instructions = 0, integer_divisions = 0, exact_divisions = 0, products = 0, shared = 0, global = 0, exchanges = 0;
};

struct Statistics {
  Chain chain[2];
  unsigned long long instructions = 0;
  unsigned long long divisions = 0;        // of whole numbers
  unsigned long long strong_loads = 0;     // of global memory, relaxed and acquire: one per instruction
  unsigned long long different_loads = 0;  // of those, by thread, address and width: without polls in vain
  unsigned long long weak_loads = 0;       // of global memory: one per instruction
};

// Whether bytes at an address may be accessed.
using MayAccess = std::function<bool(std::uint64_t address, std::size_t bytes)>;

Statistics run(const Entry& entry, const Launch& launch, const std::vector<unsigned char>& parameters, const MayAccess& may_access);

}  // namespace millrace::rnn::ptx
