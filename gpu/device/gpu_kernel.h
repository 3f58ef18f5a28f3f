// What the kernels of a GPU have in common. Internal to gpu/device.
//
// Shapes of everything that comes in, failures of the engine, and the fused activation with its derivative are settled here, once; a
// derived kernel queues the work of its operation.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "gpu/device/context.h"
#include "gpu/device/gpu_tensor.h"

namespace millrace::gpu {

using SharedContext = std::shared_ptr<Context>;

class GpuKernel : public Kernel {
 public:
  GpuKernel(SharedContext context, KernelSpec spec) : context_(std::move(context)), spec_(std::move(spec)) {}

  std::vector<std::unique_ptr<Tensor>> make_parameters() final;
  std::vector<std::unique_ptr<Tensor>> make_state() final;
  std::unique_ptr<Tensor> make_keep() final;

  void forward(const ForwardArguments& arguments) final;
  void error_back(const ErrorBackArguments& arguments) final;
  void parameter_gradient(const GradientArguments& arguments) final;

  std::string implementation() const override { return "element by element"; }

 protected:
  const KernelSpec& spec() const { return spec_; }
  Context& context() const { return *context_; }
  int64_t samples() const { return spec_.micro_batch; }
  int64_t output_elements() const { return spec_.micro_batch * spec_.output.elements(); }
  int64_t input_elements(size_t input = 0) const { return spec_.micro_batch * spec_.inputs[input].elements(); }

  // For kernels that work on each element by itself: they can be called part by part in time.
  bool streams_elements() const { return spec_.output.width == 1 && spec_.inputs[0] == spec_.output && !spec_.activation; }
  PartOfTime part_of(const MicroBatch& batch) const;

  virtual std::vector<Shape> parameter_shapes() const { return {}; }
  virtual std::vector<Shape> state_shapes() const { return {}; }
  // No elements: nothing is kept.
  virtual Shape keep_shape() const { return {}; }

  virtual void run_forward(const ForwardArguments& arguments) = 0;
  // The output error is the one before the fused activation.
  virtual void run_error_back(const ErrorBackArguments& arguments) = 0;
  virtual void run_gradient(const GradientArguments& arguments) { (void)arguments; }

  // values[sample][channel][position] += bias[channel]
  void add_bias(const GpuTensor& bias, const GpuTensor& values) const;
  // gradient (+)= the errors of a channel
  void sum_channels(const GpuTensor& error, const GpuTensor& gradient, bool adds) const;

 private:
  std::vector<std::unique_ptr<Tensor>> tensors_of(const std::vector<Shape>& shapes, std::string_view what) const;

  SharedContext context_;
  KernelSpec spec_;
};

// Numbers of the host that a call's work reads: taken when written, on the GPU in time.
class UploadedNumbers {
 public:
  template <typename T>
  const T* write(Context& context, std::span<const T> numbers, const std::string& what) {
    if (buffer_.bytes() < numbers.size_bytes()) buffer_ = context.allocate(numbers.size_bytes(), what);
    context.upload(buffer_, {.pitch = numbers.size_bytes(), .width = numbers.size_bytes()}, [&](size_t begin, std::byte* to, size_t size) {
      std::copy_n(reinterpret_cast<const std::byte*>(numbers.data()) + begin, size, to);
    });
    return buffer_.as<const T>();
  }
  const Buffer* buffer() const { return &buffer_; }

 private:
  Buffer buffer_;
};

// Rows in front of each sample's end, where a micro-batch has short ones.
class ValidRows {
 public:
  // Null when all rows of all samples count.
  const int32_t* write(Context& context, const KernelSpec& spec, const MicroBatch& batch);
  const Buffer* buffer() const { return numbers_.buffer(); }
  int64_t rows() const { return rows_; }  // of all samples, as of the last write

 private:
  UploadedNumbers numbers_;
  std::vector<int32_t> valid_;
  int64_t rows_ = 0;
};

}  // namespace millrace::gpu
