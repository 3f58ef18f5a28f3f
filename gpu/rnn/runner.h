// Who runs a layer: our own kernels or the machine's library, and why. Measured where someone measures, else by a rule.
//
//   const Runner runner = choose_runner(machine, shape, &file, own_seconds, dnn_library_seconds);   // measures, remembers
//   RnnLayer layer(machine, shape, runner);
//   RnnLayer plain(machine, shape);                                                             // by runner_by_rule()
//
// The rule, without a measurement: the library where the chip does not hold the layer, and where the performance model's
// time for our kernels exceeds a plain library's, each in microseconds per step on the GPU of GRNN's Table 1 (Titan V):
//   ours = 0.0105 x the model's cost with 200 per exchange (fits that table's GRNN column within a quarter)
//   plain = 9.6, or 17.9 for several samples, + 1.13 per MB of weights + 0.575 per million multiply-adds (fits its column of
//   cuDNN's traditional algorithm within a third; 16-bit formats halve the bytes and, on matrix units, divide the products
//   by eight, which is assumed). A faster GPU is taken to speed up both alike; only a measurement knows better.
// Values and pure functions, but for the file.
#pragma once

#include <functional>
#include <string>

#include "gpu/rnn/library.h"
#include "gpu/rnn/plan.h"

namespace millrace::rnn {

class SelectionFile;

struct Runner {
  std::string algorithm;           // of the library; none: our own kernels
  double own_seconds = 0;          // of a pass over the sequence, forward and, when training, backward; 0: not measured
  double dnn_library_seconds = 0;  // of the library's best
  std::string reason;
  bool is_library() const { return !algorithm.empty(); }
};
Runner own_kernels(const std::string& reason);
std::string name_of(const Runner& runner);

// Microseconds per step, by the rule above. `cost`: Layout::cost, of forward and, when training, backward together.
double own_step_by_rule(double cost);
double library_step_by_rule(const RnnShape& shape);

// Asks for the machine's library only when the rule is in favour of it.
Runner runner_by_rule(Machine& machine, const RnnShape& shape, const Gpu& constants);

// The faster of our kernels and the library's best algorithm, measured; what the file knows about this library is not
// measured again. A measurement that throws RnnError is passed over; without a library, or when nothing could be measured,
// our own kernels run.
Runner choose_runner(Machine& machine, const RnnShape& shape, SelectionFile* file, const std::function<double()>& own_seconds,
                     const std::function<double(const std::string& algorithm)>& dnn_library_seconds);

}  // namespace millrace::rnn
