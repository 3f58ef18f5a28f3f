// The recurrences of a stand-in engine: gpu/recurrence over the emulator of GPU threads, in a schedule that a seed decides, or over another
// machine.
//
//   EmulatedRecurrences recurrences({.multiprocessors = 0}, 3);      // on which nothing fits: single steps
//   recurrences.choose(geometry);  recurrences.run(call);  recurrences.check();
//
// Runs at once. Not reentrant, as the emulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "gpu/recurrence/recurrence_runner.h"

namespace millrace::rnn {
class Machine;
}

namespace millrace::testing {

class EmulatedRecurrences {
 public:
  // Whether bytes at an address are memory of the device.
  using MayAccess = std::function<bool(uint64_t address, size_t bytes)>;
  using OpenMachine = std::function<std::unique_ptr<rnn::Machine>(MayAccess may_access)>;
  struct Options {
    int multiprocessors = 8;
    int missing_blocks = 0;                       // of every persistent launch: the mistake that tests plant
    unsigned long long patience = 2'000'000'000;  // emulated nanoseconds that a block waits for another one
    OpenMachine machine = {};                     // in place of the emulator
  };

  EmulatedRecurrences(const Options& options, uint64_t seed, MayAccess may_access = {});
  ~EmulatedRecurrences();

  gpu::RecurrenceChoice choose(const gpu::RecurrenceGeometry& geometry) { return runner_->choose(geometry); }
  void run(const gpu::Recurrence& call) { runner_->run(call); }
  void check() const {
    if (*runner_->hung() != 0) throw gpu::hung_recurrence(*runner_->hung());
  }

 private:
  std::unique_ptr<rnn::Machine> machine_;
  std::unique_ptr<gpu::RecurrenceRunner> runner_;
};

}  // namespace millrace::testing
