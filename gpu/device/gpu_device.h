// A GPU as a device of the ring: every layer in fp32, on any Engine (engine.h); the CUDA one is gpu/cuda's.
//
//   std::unique_ptr<Device> device = make_gpu_device(std::make_unique<...>(), {.precision = Precision::kFloat32});
//   auto kernel = device->make_kernel(spec);
//   device->write(*x, whole(*x), host);  kernel->forward(arguments);  device->read(*y, whole(*y), host);
//
// Calls queue work and return; read(), squared_norm(), all_finite(), a loss that is asked for its score and synchronize() wait for what
// they need. What a call is given in host memory (numbers, labels, lengths, sample ids) it has taken when it returns. Copies go through
// two pinned buffers each way and run beside calculations that do not touch the same tensor. Kernels and tensors may outlive the device.
//
// Recurrent layers keep their weights on the chip for all steps where those fit, and take step by step where they do not: which, and
// why, is what their implementation() says and a line of the log at the start. Embeddings read their tokens back, and the CTC loss is
// the host's work, staged through pinned memory: both wait. Chunks of time (MicroBatch::chunk) give the same results up to rounding.
//
// Tensors are fp32 whatever the precision: a narrow one rounds the factors of products and, of convolutions, each sum once; bias,
// normalisation, loss and update stay fp32. Recurrent layers keep states and the errors of their gates in it, and cells in fp32; where
// only fp32 kernels take all steps at once they are fp32 as a whole, as in tf32. Errors are not scaled: fp16 loses those below 6e-8. The
// same calls give the same bits on the same GPU with the same libraries, as long as convolutions' algorithms are not measured, or were
// measured once and are read back from `algorithms`.
//
// Messages to and from other GPUs may stay in its memory (core/device/device_messages.h), where the engine lets others reach its queues;
// not with `graphs`.
//
// Fails with kUnavailable when memory runs out, saying for what, how much was wanted and how much is free; for recurrent layers of both
// directions with truncation, which do not run here; and when a recurrence hangs, at the next call that waits.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "core/device/device.h"
#include "gpu/device/engine.h"

namespace millrace {

struct GpuOptions {
  gpu::Precision precision = gpu::Precision::kFloat32;
  size_t workspace_bytes = size_t{256} << 20;  // the most that a convolution may take besides its tensors
  size_t staging_bytes = size_t{4} << 20;      // of each pinned buffer
  bool measure_algorithms = false;             // try convolutions' algorithms out, instead of asking the library which it thinks best
  std::filesystem::path algorithms = {};       // where choices are read from and written to; empty: nowhere
  bool graphs = false;                         // launch together what was launched before (replaying_engine.h)
};

std::string_view name_of(gpu::Precision precision);        // "fp32", "tf32", "fp16", "bf16"
gpu::Precision gpu_precision_from(std::string_view name);  // fails with kUsage

std::unique_ptr<Device> make_gpu_device(std::unique_ptr<gpu::Engine> engine, const GpuOptions& options = {});

// A failure as the error it is: kUnavailable, with what to do where that is known.
[[noreturn]] void fail_as_error(const gpu::Failure& failure);

}  // namespace millrace
