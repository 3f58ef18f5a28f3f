// What the CPU kernels have in common. Internal to core/cpu.
//
// The shapes of everything that comes in, threads and floating-point mode, and the derivative of a fused activation are
// settled here, once; a derived kernel does the arithmetic of its operation. A kernel that fuses the activation into
// its forward pass says so; otherwise it is applied afterwards.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/engine.h"
#include "core/cpu/tensor.h"
#include "core/cpu/threading.h"
#include "core/device/device.h"
#include "core/device/sequence.h"

namespace millrace::cpu {

class CpuKernel : public Kernel {
 public:
  CpuKernel(std::shared_ptr<Engine> engine, KernelSpec spec);

  std::vector<std::unique_ptr<Tensor>> make_parameters() override { return {}; }

  void forward(const ForwardArguments& arguments) final;
  void error_back(const ErrorBackArguments& arguments) final;
  void parameter_gradient(const GradientArguments& arguments) final;

  std::string implementation() const override { return "loops"; }

 protected:
  const KernelSpec& spec() const { return spec_; }
  const Engine& engine() const { return *engine_; }
  int threads() const { return engine_->threads; }
  int64_t samples() const { return spec_.micro_batch; }
  // Scratch for the calls to come; offsets stay valid, addresses do not.
  void reserve(const ScratchPlan& plan) { engine_->arena.reserve(plan.total()); }
  template <typename T>
  T* scratch(size_t offset) const {
    return engine_->arena.at<T>(offset);
  }
  Layout layout_of(const Shape& shape) const;
  std::unique_ptr<Tensor> make_parameter(const Shape& shape, std::shared_ptr<const Packing> packing = nullptr) const {
    return std::make_unique<CpuTensor>(shape, std::move(packing));
  }

  // Where every element goes its own way, a sequence can be taken in chunks of time; an activation fused behind is not.
  bool streams_elements() const { return spec_.output.width == 1 && spec_.inputs[0] == spec_.output && !spec_.activation; }
  // visit(begin, size) for pieces of what a call is about, in the array of a tensor like the output.
  template <typename Visit>
  void for_each_piece(const MicroBatch& batch, Visit visit) const {
    const Layout layout = layout_of(spec_.output);
    if (batch.chunks == 1) return parallel_chunks(threads(), layout.stored(), visit);
    const StepRange steps = chunk_of(batch, spec_.output.height);
    for (int64_t sample = 0; sample < samples(); ++sample)
      for (int64_t begin = steps.begin * layout.block; begin < steps.end * layout.block; begin += kChunk)
        visit(sample * layout.sample_stride() + begin, std::min(kChunk, steps.end * layout.block - begin));
  }

  virtual bool fuses_activation() const { return false; }
  virtual void run_forward(const ForwardArguments& arguments) = 0;
  // The output error is the one before the fused activation.
  virtual void run_error_back(const ErrorBackArguments& arguments) = 0;
  virtual void run_gradient(const GradientArguments& arguments) { (void)arguments; }

 private:
  std::shared_ptr<Engine> engine_;
  KernelSpec spec_;
};

// y = activation(y) over a whole tensor, padding kept zero.
void activate_tensor(int threads, const Activation& activation, CpuTensor& tensor);

}  // namespace millrace::cpu
