// The oracle: runs any plan in one process, following its flows and actions literally, one kernel call at a time, on
// plain host arrays. Slow. What trainer, simulator and devices do is compared with what this does. Internal to core/reference.
//
//   Interpreter interpreter(plan, {.type = ElementType::kFloat64, .learning_rate = rate}, samples);
//   interpreter.set_parameter("conv1", "weight", values);
//   interpreter.run(20);                                   // mini-batches
//   interpreter.moved()[f]                                 // elements that crossed as plan.flows[f]
//
// It reads the plan itself (shards, groups, homes, flows), not the compiled segment program, so that the two check
// each other. A channel used before any flow brought it is an error (kMismatch), never a zero.
// What a plan takes in chunks of time it does with the last of them: no number is another, and as many elements cross.
// Arithmetic is the reference device's in fp64 or fp32; sums follow core/plan/flows.h. Learning rate by mini-batch.
// Limits: no clipping by global norm; no evaluation actions; time and memory grow with the plan, use small networks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/device.h"
#include "core/documents/plan.h"

namespace millrace {

struct Samples {
  int64_t epoch = 0;
  std::vector<int64_t> ids;
  std::vector<int32_t> labels;
  std::vector<double> pixels;  // canonical
  std::vector<int32_t> lengths = {};
};

struct InterpreterOptions {
  ElementType type = ElementType::kFloat64;
  uint64_t seed = 1;
  std::function<double(int64_t mini_batch)> learning_rate = [](int64_t) { return 0.1; };
};

class Interpreter {
 public:
  using Source = std::function<Samples(int64_t s)>;

  Interpreter(Plan plan, InterpreterOptions options, Source source);
  ~Interpreter();

  // Full canonical tensors. Every trained parameter must be set before run().
  void set_parameter(std::string_view layer, std::string_view tensor, std::span<const double> full);
  std::vector<double> parameter(std::string_view layer, std::string_view tensor) const;

  // May be called once.
  void run(int64_t mini_batches);

  const std::vector<int64_t>& moved() const;
  // Per mini-batch.
  const std::vector<Score>& scores() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace millrace
