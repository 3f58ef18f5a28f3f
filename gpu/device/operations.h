// One maker per operation; each lives in the source file of its name. Internal to gpu/device.
#pragma once

#include <memory>

#include "gpu/device/gpu_kernel.h"

namespace millrace::gpu {

std::unique_ptr<Kernel> make_convolution(const SharedContext& context, const KernelSpec& spec, const Conv2d& operation);
std::unique_ptr<Kernel> make_dense(const SharedContext& context, const KernelSpec& spec, const Dense& operation);
std::unique_ptr<Kernel> make_finish(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_pooling(const SharedContext& context, const KernelSpec& spec, const Pool2d& operation);
std::unique_ptr<Kernel> make_global_pooling(const SharedContext& context, const KernelSpec& spec, const GlobalPool& operation);
std::unique_ptr<Kernel> make_activation(const SharedContext& context, const KernelSpec& spec, const Activation& operation);
std::unique_ptr<Kernel> make_batch_norm(const SharedContext& context, const KernelSpec& spec, const BatchNorm& operation);
std::unique_ptr<Kernel> make_local_response_norm(const SharedContext& context, const KernelSpec& spec, const LocalResponseNorm& operation);
std::unique_ptr<Kernel> make_dropout(const SharedContext& context, const KernelSpec& spec, const Dropout& operation);
std::unique_ptr<Kernel> make_add(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_concat(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_flatten(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_to_sequence(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_last_step(const SharedContext& context, const KernelSpec& spec);
std::unique_ptr<Kernel> make_recurrent(const SharedContext& context, const KernelSpec& spec, const Recurrent& operation);
std::unique_ptr<Kernel> make_embedding(const SharedContext& context, const KernelSpec& spec, const Embedding& operation);
std::unique_ptr<Kernel> make_ctc_loss(const SharedContext& context, const KernelSpec& spec, const CtcLoss& operation);
std::unique_ptr<Kernel> make_softmax_loss(const SharedContext& context, const KernelSpec& spec);

}  // namespace millrace::gpu
