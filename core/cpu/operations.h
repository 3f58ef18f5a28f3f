// One maker per operation; each lives in the source file of its name. Internal to core/cpu.
#pragma once

#include <memory>

#include "core/cpu/engine.h"
#include "core/device/device.h"

namespace millrace::cpu {

using SharedEngine = std::shared_ptr<Engine>;

std::unique_ptr<Kernel> make_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
// Null where the shape does not lend itself to it: maps of more than a few positions, groups.
std::unique_ptr<Kernel> make_taps_convolution(const SharedEngine& engine, const KernelSpec& spec, const Conv2d& operation);
std::unique_ptr<Kernel> make_dense(const SharedEngine& engine, const KernelSpec& spec, const Dense& operation);
std::unique_ptr<Kernel> make_finish(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_pooling(const SharedEngine& engine, const KernelSpec& spec, const Pool2d& operation);
std::unique_ptr<Kernel> make_global_pooling(const SharedEngine& engine, const KernelSpec& spec, const GlobalPool& operation);
std::unique_ptr<Kernel> make_activation(const SharedEngine& engine, const KernelSpec& spec, const Activation& operation);
std::unique_ptr<Kernel> make_batch_norm(const SharedEngine& engine, const KernelSpec& spec, const BatchNorm& operation);
std::unique_ptr<Kernel> make_local_response_norm(const SharedEngine& engine, const KernelSpec& spec, const LocalResponseNorm& operation);
std::unique_ptr<Kernel> make_dropout(const SharedEngine& engine, const KernelSpec& spec, const Dropout& operation);
std::unique_ptr<Kernel> make_add(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_concat(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_flatten(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_to_sequence(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_last_step(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_softmax_loss(const SharedEngine& engine, const KernelSpec& spec);
std::unique_ptr<Kernel> make_recurrent(const SharedEngine& engine, const KernelSpec& spec, const Recurrent& operation);
std::unique_ptr<Kernel> make_embedding(const SharedEngine& engine, const KernelSpec& spec, const Embedding& operation);
std::unique_ptr<Kernel> make_ctc_loss(const SharedEngine& engine, const KernelSpec& spec, const CtcLoss& operation);

}  // namespace millrace::cpu
