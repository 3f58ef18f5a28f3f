// The recurrences of an engine (gpu/device/engine.h) by the kernels of gpu/rnn: one class for the CUDA engine and for the stand-ins
// that run on the emulator of GPU threads.
//
//   RecurrenceRunner runner(*machine);                       // the machine's stream is the engine's compute queue
//   const RecurrenceChoice choice = runner.choose(geometry); // once; takes memory
//   runner.run(call);                                        // queued on the machine
//   if (*host_copy_of(runner.hung()) != 0) throw hung_recurrence(...);
//
// Weights need no packing: the layer's order of gates and rows is the kernels', which take them into registers by themselves when they
// start. Persistent kernels run where they fit on the chip, and single steps (a product and a cell kernel each) where they do not; which
// is decided by the performance model alone, so that the same layer on the same GPU always gives the same bits.
// In a narrow precision the steps are taken in it where all of them run at once, forward and back; where they do so in fp32 alone, in
// fp32: which it is stands in the choice, and the caller keeps its numbers so.
// Limits: persistent kernels start when all their blocks find room at once: kernels that wait beside them for something to arrive
// (NCCL's) must fit into the multiprocessors that the machine spares, or both wait for ever.
// Borrows the machine; owns memory there. Throws Failure. One thread.
#pragma once

#include <map>
#include <memory>
#include <tuple>

#include "gpu/device/failure.h"
#include "gpu/device/recurrence.h"

namespace millrace::rnn {
class Machine;
}

namespace millrace::gpu {

class RecurrenceRunner {
 public:
  // A block waits that long for another one before it gives up.
  explicit RecurrenceRunner(rnn::Machine& machine, unsigned long long patience_nanoseconds = 2'000'000'000);
  ~RecurrenceRunner();
  RecurrenceRunner(const RecurrenceRunner&) = delete;
  RecurrenceRunner& operator=(const RecurrenceRunner&) = delete;

  RecurrenceChoice choose(const RecurrenceGeometry& geometry);
  void run(const Recurrence& call);

  // In the machine's memory: 0, or 1 + the step in which a block waited for another one in vain.
  const unsigned* hung() const { return hung_; }

 private:
  struct Chosen;
  using Key = std::tuple<RecurrentCell, int64_t, int64_t, int64_t, Precision>;
  static Key key_of(const RecurrenceGeometry& geometry);
  Chosen& chosen(const RecurrenceGeometry& geometry);

  rnn::Machine& machine_;
  unsigned long long patience_;
  unsigned* hung_ = nullptr;
  std::map<Key, std::unique_ptr<Chosen>> chosen_;
};

// What hung() says when it is not 0.
Failure hung_recurrence(unsigned hung);

}  // namespace millrace::gpu
