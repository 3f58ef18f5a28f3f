// What a segment is made of, for the source files that implement SegmentExecutor. Internal to core/train.
#pragma once

#include <memory>
#include <vector>

#include "core/base/index.h"
#include "core/device/unit_steps.h"
#include "core/train/executor.h"

namespace millrace {

using TensorPointer = std::unique_ptr<Tensor>;

// A step made ready to run. Pointer lists are built once, so that running allocates nothing.
struct SegmentExecutor::StepRun {
  // Weights of one age, and the kernel that may have packed them.
  struct Version {
    std::unique_ptr<Kernel> kernel;
    std::vector<TensorPointer> parameters;
    std::vector<const Tensor*> pointers;
  };
  std::vector<Version> versions;  // none for receive, load, send
  bool trained = false;
  bool remote = false;          // parameters that live elsewhere
  bool away = false;            // remote, and so are their gradients made: E hands out a record
  UnitSteps* shared = nullptr;  // steps that several devices share
  std::unique_ptr<StepGradient> of_record;
  bool streams = false;                // runs chunk by chunk in time, as all that it reads
  bool carries = false;                // keeps states from one mini-batch to the next
  bool gathers = false;                // the last tensor of its state is what G gathers for U
  bool back = false;                   // E has something to do
  Tensor* again = nullptr;             // F once more before E, into this keep that other steps use too; then G
  int64_t gradients_in_back = 0;       // of the mini-batch, made in that way
  bool slices_input = false;           // compute: the block reads part of the value
  bool slices_output = false;          // compute: the block adds to part of the sum
  std::vector<ParameterSlice> slices;  // trained, then state
  std::vector<TensorPointer> gradients, state;
  std::vector<std::vector<TensorPointer>> optimizer;  // [parameter][slot]
  std::vector<Tensor*> gradient_pointers, state_pointers;
  std::vector<std::vector<Tensor*>> optimizer_pointers;

  // What replicas add up before an update: gradients, and what a batch norm gathered.
  template <typename Visit>
  void for_each_summed(Visit visit) const {
    for (size_t p = 0; p < gradients.size() && !remote; ++p) visit(*gradients[p]);
    if (gathers && trained && !remote) visit(*state.back());
  }

  bool runs() const { return !versions.empty(); }
  Version& version(int64_t number) { return versions[to_size(number) % versions.size()]; }
  Kernel& kernel() const { return *versions.front().kernel; }
};

struct SegmentExecutor::Slot {
  std::vector<TensorPointer> values;
  std::vector<TensorPointer> keeps;                // per step
  std::vector<TensorPointer> input_slices;         // per step, where the block reads part of a value
  std::vector<TensorPointer> output_slices;        // per step, where it adds to part of a sum
  std::vector<std::vector<const Tensor*>> inputs;  // per step
};

struct SegmentExecutor::ErrorSet {
  std::vector<TensorPointer> errors;         // per value, null where none is needed
  std::vector<TensorPointer> input_slices;   // per step
  std::vector<TensorPointer> output_slices;  // per step
  std::vector<std::vector<Tensor*>> input_errors;
};

}  // namespace millrace
