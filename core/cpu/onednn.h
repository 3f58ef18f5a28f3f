// The little that the CPU kernels need of oneDNN, without allocation per call. Internal to core/cpu; included by
// source files only.
//
//   Job job(primitive, {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
//   job.bind(DNNL_ARG_SRC, x);  job.bind(DNNL_ARG_DST, y);  job.run();
//
// oneDNN's C++ interface gathers arguments in a map for every call; a Job keeps them in the form of the C interface.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/cpu/memory.h"

namespace millrace::cpu {

using MemoryDesc = dnnl::memory::desc;

const dnnl::engine& onednn_engine();

class Job {
 public:
  Job() = default;
  Job(dnnl::primitive primitive, const std::vector<std::pair<int, MemoryDesc>>& arguments);

  void bind(int argument, const void* data);
  void run();

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// A tensor as it lies (`have`) and as a primitive needs it (`want`): nothing where the two agree, else a reorder through
// scratch memory.
class Port {
 public:
  enum class Way { kIn, kOut };
  Port() = default;
  Port(Way way, const MemoryDesc& have, const MemoryDesc& want, ScratchPlan& plan);

  bool direct() const { return direct_; }
  // kIn: the data in the wanted form.
  const float* fetch(const Arena& arena, const float* tensor);
  // kOut: where the primitive writes when not direct, and the way from there to the tensor.
  float* landing(const Arena& arena) const { return arena.at<float>(offset_); }
  void store(const Arena& arena, float* tensor);

 private:
  bool direct_ = true;
  size_t offset_ = 0;
  Job reorder_;
};

// Copies between any two forms of the same dimensions, at once; for occasions, not for every call.
void reorder_now(const MemoryDesc& from_desc, const float* from, const MemoryDesc& to_desc, float* to);

// How good an implementation is: 0 vectorised, 1 through a matrix product, 2 oneDNN's reference loops.
int rank_of(const std::string& implementation);

}  // namespace millrace::cpu
