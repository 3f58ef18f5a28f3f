#include "core/cpu/onednn.h"

#include "core/base/check.h"

namespace millrace::cpu {

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

namespace {

const dnnl::stream& stream() {
  static const dnnl::stream stream(onednn_engine());
  return stream;
}

}  // namespace

Job::Job(dnnl::primitive primitive, const std::vector<std::pair<int, MemoryDesc>>& arguments) : primitive_(std::move(primitive)) {
  for (const auto& [argument, desc] : arguments) {
    memories_.emplace_back(desc, onednn_engine(), nullptr);
    arguments_.push_back({argument, memories_.back().get()});
  }
}

void Job::bind(int argument, const void* data) {
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].arg == argument) {
      // Setting a pointer also writes the padding of the memory, so it is done only where something changes.
      if (memories_[i].get_data_handle() != data) memories_[i].set_data_handle(const_cast<void*>(data));
      return;
    }
  MILLRACE_CHECK(false, "oneDNN argument {} is not one of this primitive's", argument);
}

void Job::run() {
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(arguments_.size()), arguments_.data()),
                          "oneDNN could not execute a primitive");
}

Port::Port(Way way, const MemoryDesc& have, const MemoryDesc& want, ScratchPlan& plan) : direct_(have == want) {
  if (direct_) return;
  offset_ = plan.add(want.get_size());
  const MemoryDesc& from = way == Way::kIn ? have : want;
  const MemoryDesc& to = way == Way::kIn ? want : have;
  const dnnl::reorder::primitive_desc desc(onednn_engine(), from, onednn_engine(), to);
  reorder_ = Job(dnnl::reorder(desc), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

const float* Port::fetch(const Arena& arena, const float* tensor) {
  if (direct_) return tensor;
  float* const wanted = arena.at<float>(offset_);
  reorder_.bind(DNNL_ARG_FROM, tensor);
  reorder_.bind(DNNL_ARG_TO, wanted);
  reorder_.run();
  return wanted;
}

void Port::store(const Arena& arena, float* tensor) {
  reorder_.bind(DNNL_ARG_FROM, landing(arena));
  reorder_.bind(DNNL_ARG_TO, tensor);
  reorder_.run();
}

void reorder_now(const MemoryDesc& from_desc, const float* from, const MemoryDesc& to_desc, float* to) {
  Job job(dnnl::reorder(dnnl::reorder::primitive_desc(onednn_engine(), from_desc, onednn_engine(), to_desc)),
          {{DNNL_ARG_FROM, from_desc}, {DNNL_ARG_TO, to_desc}});
  job.bind(DNNL_ARG_FROM, from);
  job.bind(DNNL_ARG_TO, to);
  job.run();
}

int rank_of(const std::string& implementation) {
  if (implementation.starts_with("ref")) return 2;
  return implementation.starts_with("gemm") ? 1 : 0;
}

}  // namespace millrace::cpu
