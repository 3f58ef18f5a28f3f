// Convolutions of a CPU profile by shape: their names in a catalogue, and which of them stands for a layer. Internal to core/cpu.
//
//   efficiency_conv_128to256_8x8_k3s1_b32_forward        channels in and out, map of the output, kernel, stride, micro-batch, phase
//
// Plain functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/cpu/cpu_cost_model.h"

namespace millrace::cpu {

// Without the phase.
std::string name_of(const MeasuredConvolution& convolution);
// Of a catalogue's device, in its order. Fails with kMalformed on a name that begins like one and is none, or lacks a phase.
std::vector<MeasuredConvolution> convolutions_of(const CatalogueDevice& device);

// The layer as a measurement would be of it, without efficiency; nothing where none is taken.
std::optional<MeasuredConvolution> shape_of(const Node& node, int64_t micro_batch);
// Index of the one that stands for the layer; nothing where none is near.
std::optional<size_t> nearest(const std::vector<MeasuredConvolution>& measured, const MeasuredConvolution& shape);

}  // namespace millrace::cpu
