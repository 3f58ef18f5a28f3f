// Operations that compute nothing but move or add elements: add, concat, flatten, to-sequence, last-step. Each but the last is one
// strided copy per input, forward one way and back the other.
#include <utility>

#include "gpu/device/operations.h"

namespace millrace::gpu {

namespace {

// Where an input's elements lie in the output: extents and strides in both.
struct Placement {
  int64_t extent[4];
  int64_t input_stride[4];
  int64_t output_stride[4];
  int64_t output_offset = 0;
};

class MoveKernel final : public GpuKernel {
 public:
  MoveKernel(const SharedContext& context, const KernelSpec& spec, std::vector<Placement> placements, bool sums)
      : GpuKernel(context, spec), placements_(std::move(placements)), sums_(sums) {}

  bool streams() const override { return sums_ && streams_elements(); }

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const GpuTensor& output = own(arguments.output);
    for (size_t input = 0; input < placements_.size(); ++input) {
      const GpuTensor& from = own(arguments.inputs[input]);
      StridedCopy copy = base(input, sums_ && input > 0);
      copy.from = from.data();
      copy.to = output.data() + placements_[input].output_offset;
      std::copy_n(placements_[input].input_stride, 4, copy.from_stride);
      std::copy_n(placements_[input].output_stride, 4, copy.to_stride);
      context().run(in_part(copy, *arguments.batch), {&from.buffer()}, {&output.buffer()});
    }
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    const GpuTensor& error = own(arguments.output_error);
    for (size_t input = 0; input < placements_.size(); ++input) {
      if (arguments.input_errors[input] == nullptr) continue;
      const GpuTensor& to = own(arguments.input_errors[input]);
      StridedCopy copy = base(input, arguments.adds[input] != 0);
      copy.from = error.data() + placements_[input].output_offset;
      copy.to = to.data();
      std::copy_n(placements_[input].output_stride, 4, copy.from_stride);
      std::copy_n(placements_[input].input_stride, 4, copy.to_stride);
      context().run(in_part(copy, *arguments.batch), {&error.buffer()}, {&to.buffer()});
    }
  }

 private:
  // A sum's planes are the same on both sides: of each, the steps that the call is about.
  StridedCopy in_part(StridedCopy copy, const MicroBatch& batch) const {
    const PartOfTime part = part_of(batch);
    if (part.steps == part.count) return copy;
    copy.from += part.begin;
    copy.to += part.begin;
    const int64_t extent[4] = {1, 1, copy.elements / part.steps, part.count}, stride[4] = {0, 0, part.steps, 1};
    std::copy_n(extent, 4, copy.extent);
    std::copy_n(stride, 4, copy.from_stride);
    std::copy_n(stride, 4, copy.to_stride);
    copy.elements = part.of(copy.elements);
    return copy;
  }
  StridedCopy base(size_t input, bool adds) const {
    StridedCopy copy{.adds = adds, .elements = input_elements(input)};
    std::copy_n(placements_[input].extent, 4, copy.extent);
    return copy;
  }

  std::vector<Placement> placements_;
  bool sums_;
};

// Whole samples, one after the other, at a place in each of the output's.
Placement samples_at(int64_t samples, int64_t input_elements, int64_t output_elements, int64_t offset) {
  return {.extent = {1, 1, samples, input_elements},
          .input_stride = {0, 0, input_elements, 1},
          .output_stride = {0, 0, output_elements, 1},
          .output_offset = offset};
}

class LastStepKernel final : public GpuKernel {
 public:
  using GpuKernel::GpuKernel;

 protected:
  void run_forward(const ForwardArguments& arguments) override {
    const int32_t* valid = valid_.write(context(), spec(), *arguments.batch);
    const GpuTensor& input = own(arguments.inputs[0]);
    const GpuTensor& output = own(arguments.output);
    context().run(TakeLastStep{.input = input.data(),
                               .output = output.data(),
                               .valid = valid,
                               .channels = spec().output.channels,
                               .steps = spec().inputs[0].height,
                               .elements = output_elements()},
                  {&input.buffer(), valid_.buffer()}, {&output.buffer()});
  }
  void run_error_back(const ErrorBackArguments& arguments) override {
    if (arguments.input_errors[0] == nullptr) return;
    const int32_t* valid = valid_.write(context(), spec(), *arguments.batch);
    const GpuTensor& error = own(arguments.output_error);
    const GpuTensor& input_error = own(arguments.input_errors[0]);
    context().run(LastStepError{.output_error = error.data(),
                                .input_error = input_error.data(),
                                .valid = valid,
                                .channels = spec().output.channels,
                                .steps = spec().inputs[0].height,
                                .adds = arguments.adds[0] != 0,
                                .elements = input_elements()},
                  {&error.buffer(), valid_.buffer()}, {&input_error.buffer()});
  }

 private:
  ValidRows valid_;
};

}  // namespace

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Add&) {
  const int64_t elements = spec.output.elements();
  return std::make_unique<MoveKernel>(
      context, spec, std::vector<Placement>(spec.inputs.size(), samples_at(spec.micro_batch, elements, elements, 0)), true);
}

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Concat&) {
  std::vector<Placement> placements;
  int64_t offset = 0;
  for (const Shape& input : spec.inputs) {
    placements.push_back(samples_at(spec.micro_batch, input.elements(), spec.output.elements(), offset));
    offset += input.elements();
  }
  return std::make_unique<MoveKernel>(context, spec, std::move(placements), false);
}

// Canonical order stays as it is.
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const Flatten&) {
  const int64_t elements = spec.output.elements();
  return std::make_unique<MoveKernel>(context, spec, std::vector<Placement>{samples_at(spec.micro_batch, elements, elements, 0)}, false);
}

// {C, T, W} -> {C*W, T, 1}: feature c * W + w of step t.
std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const ToSequence&) {
  const Shape& in = spec.inputs[0];
  const Placement placement{.extent = {spec.micro_batch, in.channels, in.height, in.width},
                            .input_stride = {in.elements(), in.plane(), in.width, 1},
                            .output_stride = {in.elements(), in.plane(), 1, in.height}};
  return std::make_unique<MoveKernel>(context, spec, std::vector<Placement>{placement}, false);
}

std::unique_ptr<Kernel> make_kernel_for(const SharedContext& context, const KernelSpec& spec, const LastStep&) {
  return std::make_unique<LastStepKernel>(context, spec);
}

}  // namespace millrace::gpu
