// Work that goes on beside whoever begins it.
//
//   std::future<bool> stands = beside([&solver] { return solver.rules_out(2e-3); });
//   const Candidate found = candidate_of(attempt);     // meanwhile
//   if (stands.get()) ...
//
// On a machine that does one thing at a time nothing begins before it is asked for. The end of what comes back waits for what has begun, so
// all that the work refers to is to outlive it.
#pragma once

#include <future>
#include <thread>
#include <utility>

namespace millrace {

inline bool does_several_at_once() {
  static const bool several = std::thread::hardware_concurrency() > 1;  // which reads files
  return several;
}

template <typename Work>
auto beside(Work&& work) {
  return std::async(does_several_at_once() ? std::launch::async : std::launch::deferred, std::forward<Work>(work));
}

}  // namespace millrace
