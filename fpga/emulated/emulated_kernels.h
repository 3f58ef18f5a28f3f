// The kernels of the emulated FPGA. Internal to fpga/emulated.
//
// `host` is the plain-loops device that holds the tensors and computes every layer that is no convolution; `counters` belong
// to the layer; engines compute the phases, in the formats that `book` has for the layer. All outlive the kernel.
#pragma once

#include <memory>

#include "core/device/device.h"
#include "fpga/conv_ce/phases/convolution_engine.h"
#include "fpga/emulated/emulated_fpga.h"
#include "fpga/pe_chain/arithmetic/chain_engine.h"
#include "fpga/recurrence/arithmetic/recurrence_engine.h"

namespace millrace::emulated {

// Of a convolution or dense layer; nothing for the others.
std::optional<ConvolutionShape> convolution_shape_of(const KernelSpec& spec);

std::unique_ptr<Kernel> make_fixed_convolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host,
                                               LayerArithmetic& counters, ConvolutionEngine& engine, const LayerFormats& book);
std::unique_ptr<Kernel> make_float_convolution(const KernelSpec& spec, const ConvolutionShape& shape, Device& host);
// Fails with kUnavailable, naming the layer, on what the functional model does not compute.
std::unique_ptr<Kernel> make_fixed_recurrent(const KernelSpec& spec, const Recurrent& cell, Device& host, LayerArithmetic& counters,
                                             const LayerFormats& book, TanhForm smooth, RecurrenceEngine& engine);
// Steps of some cells alone, where several boards share them (core/device/unit_steps.h).
std::unique_ptr<Kernel> make_shared_steps(const KernelSpec& spec, bool fixed, Device& host, LayerArithmetic& counters,
                                          const LayerFormats& book, TanhForm smooth, ChainEngine& engine);
// The steps alone, on chained elements; gradients are not asked for.
std::unique_ptr<Kernel> make_steps(const KernelSpec& spec, bool fixed, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                                   TanhForm smooth, ChainEngine& engine);
// Any layer on the host; with `rounds` what it gives out becomes 16 bits.
std::unique_ptr<Kernel> make_host_kernel(const KernelSpec& spec, Device& host, LayerArithmetic& counters, bool rounds,
                                         const LayerFormats& book);

// In fixed point, where hardware has such a norm.
bool has_fixed_response_norm(const KernelSpec& spec, const LayerFormats& book);
std::unique_ptr<Kernel> make_fixed_response_norm(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book);
// Sigmoid and tangent in fixed point: a layer of its own, and fused behind any layer but a recurrent one; `inner` knows nothing of it.
bool has_fixed_smooth_activation(const KernelSpec& spec, const LayerFormats& book);
std::unique_ptr<Kernel> make_fixed_smooth_activation(const KernelSpec& spec, Device& host, LayerArithmetic& counters,
                                                     const LayerFormats& book);
bool has_fixed_smooth_behind(const KernelSpec& spec, const LayerFormats& book);
std::unique_ptr<Kernel> make_fixed_smooth_behind(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book,
                                                 std::unique_ptr<Kernel> inner);
// In fixed point, of a batch norm that is trained with running statistics.
bool has_fixed_running_norm(const KernelSpec& spec);
std::unique_ptr<Kernel> make_fixed_running_norm(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book);
// In fixed point, with the draws of a board.
std::unique_ptr<Kernel> make_fixed_dropout(const KernelSpec& spec, Device& host, LayerArithmetic& counters, const LayerFormats& book);

}  // namespace millrace::emulated
