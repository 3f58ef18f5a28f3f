// The shared memory that kernels may ask for at a launch: the CUDA runtime keeps ONE number per kernel, and a launch with more
// than it is refused. Layouts of one kernel want different amounts, so the number is raised when it is too low and never lowered.
//
//   SharedReservations reserved;
//   reserved.raise(kernel, bytes, [&] { require(cudaFuncSetAttribute(kernel, ..., bytes), "reserving shared memory"); });
//
// What `set` throws leaves the number as it was. Values only; not for several threads. Internal to gpu/rnn.
#pragma once

#include <map>

namespace millrace::rnn {

class SharedReservations {
 public:
  template <class Set>
  void raise(const void* kernel, int bytes, Set set) {
    const auto known = reserved_.find(kernel);
    if (known != reserved_.end() && known->second >= bytes) return;
    set();
    reserved_[kernel] = bytes;
  }

 private:
  std::map<const void*, int> reserved_;
};

}  // namespace millrace::rnn
