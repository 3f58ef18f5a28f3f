// The GPU device's own kernels as nvcc made them: the PTX of gpu/cuda/cuda_work.cu by the interpreter of tests/gpu/rnn/ptx, for a stand-in
// engine.
//
//   PtxWork work(objects_of_the_module());
//   Queued gpu({.own_work = &work});                 // the whole device on it
//   ... work.ran(), work.kernels()                   // which of the kernels have run, and which there are
//
// Launches take their architecture and their schedule in turn (see tests/gpu/rnn/ptx/grid.h). Blocks beyond kMostBlocks take turns at the
// elements, which they may on a GPU, too. Throws PtxError and GridError. Outlives the engine.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/device/own_work.h"
#include "tests/gpu/rnn/ptx/grid.h"

namespace millrace::testing {

class PtxWork final : public OwnWork {
 public:
  static constexpr int64_t kMostBlocks = 12;

  // Of the object files those that hold the kernels' PTX. `change` may plant a fault in a text, once it is read.
  explicit PtxWork(const std::vector<std::string>& objects, const std::function<void(std::string&)>& change = {});

  size_t architectures() const { return modules_.size(); }
  const std::set<std::string>& kernels() const { return kernels_; }
  const std::set<std::string>& ran() const { return ran_; }
  int64_t launches() const { return launches_; }

  void run(const gpu::ElementWork& work, const MayAccess& may_access) override;
  void run(const gpu::ReductionWork& work, const MayAccess& may_access) override;
  void run(const gpu::DirectConvolution& work, const MayAccess& may_access) override;

 private:
  template <class Work>
  void launch(const std::string& kernel, int64_t blocks, const Work& work, const MayAccess& may_access);

  std::vector<std::unique_ptr<rnn::ptx::Module>> modules_;  // one per architecture
  std::set<std::string> kernels_, ran_;
  int64_t launches_ = 0;
};

// The object files of the CUDA module's kernels; none without a CUDA compiler.
std::vector<std::string> objects_of_the_module();
// And of the recurrent kernels.
std::vector<std::string> objects_of_recurrences();

}  // namespace millrace::testing
