// The recurrences of a stand-in engine on the PTX that nvcc made of the shipped kernels.
//
//   const PtxRecurrences ptx(objects_of_recurrences());
//   QueuedOptions options;
//   options.recurrent.machine = ptx.on(0, PtxRecurrences::kH200);       // the first architecture
//
// Schedules take turns. Outlives the engines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/gpu/device/emulated_recurrences.h"
#include "tests/gpu/rnn/ptx/module.h"

namespace millrace::testing {

class PtxRecurrences {
 public:
  enum Gpu { kH200, kTooSmall };  // the other one takes steps one by one

  explicit PtxRecurrences(const std::vector<std::string>& objects);

  size_t architectures() const { return architectures_.size(); }
  EmulatedRecurrences::OpenMachine on(size_t architecture, Gpu gpu) const;

 private:
  std::vector<std::vector<std::unique_ptr<rnn::ptx::Module>>> architectures_;
};

}  // namespace millrace::testing
