// One maker per operation; each lives in the source file of its name. Internal to core/reference.
// Each is instantiated for float and double.
#pragma once

#include <memory>

#include "core/device/device.h"

namespace millrace::reference {

template <typename T>
std::unique_ptr<Kernel> make_convolution(const KernelSpec& spec, const Conv2d& operation);
template <typename T>
std::unique_ptr<Kernel> make_dense(const KernelSpec& spec, const Dense& operation);
// The bias behind a raw sum: KernelSpec::finish.
template <typename T>
std::unique_ptr<Kernel> make_finish(const KernelSpec& spec);
template <typename T>
std::unique_ptr<Kernel> make_pooling(const KernelSpec& spec, const Pool2d& operation);
template <typename T>
std::unique_ptr<Kernel> make_global_pooling(const KernelSpec& spec, const GlobalPool& operation);
template <typename T>
std::unique_ptr<Kernel> make_activation(const KernelSpec& spec, const Activation& operation);
template <typename T>
std::unique_ptr<Kernel> make_batch_norm(const KernelSpec& spec, const BatchNorm& operation);
template <typename T>
std::unique_ptr<Kernel> make_local_response_norm(const KernelSpec& spec, const LocalResponseNorm& operation);
template <typename T>
std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec, const Dropout& operation);
template <typename T>
std::unique_ptr<Kernel> make_add(const KernelSpec& spec, const Add& operation);
template <typename T>
std::unique_ptr<Kernel> make_concat(const KernelSpec& spec, const Concat& operation);
template <typename T>
std::unique_ptr<Kernel> make_flatten(const KernelSpec& spec, const Flatten& operation);
template <typename T>
std::unique_ptr<Kernel> make_to_sequence(const KernelSpec& spec, const ToSequence& operation);
template <typename T>
std::unique_ptr<Kernel> make_last_step(const KernelSpec& spec, const LastStep& operation);
template <typename T>
std::unique_ptr<Kernel> make_softmax_loss(const KernelSpec& spec, const SoftmaxCrossEntropy& operation);
template <typename T>
std::unique_ptr<Kernel> make_recurrent(const KernelSpec& spec, const Recurrent& operation);
template <typename T>
std::unique_ptr<Kernel> make_embedding(const KernelSpec& spec, const Embedding& operation);
template <typename T>
std::unique_ptr<Kernel> make_ctc_loss(const KernelSpec& spec, const CtcLoss& operation);

}  // namespace millrace::reference
