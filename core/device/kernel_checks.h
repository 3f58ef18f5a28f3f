// What every device checks of the arguments it is called with. A mistake here is one of the program: it aborts, naming the layer.
//
//   check_inputs(spec, arguments.inputs);
//   check_like_output(spec, arguments.output);
#pragma once

#include <span>

#include "core/device/device.h"

namespace millrace {

void check_inputs(const KernelSpec& spec, std::span<const Tensor* const> inputs);
void check_like_output(const KernelSpec& spec, const Tensor* tensor);
// Those that are wanted have the shapes of the inputs, and a flag that says whether to add.
void check_input_errors(const KernelSpec& spec, const ErrorBackArguments& arguments);
void check_range(const Tensor& tensor, ChannelRange channels);
// As many values as those channels of all samples.
void check_host(const Tensor& tensor, ChannelRange channels, size_t host_size);
// Of copy_channels.
void check_copy(const Tensor& from, ChannelRange channels, const Tensor& to, int64_t to_begin);

}  // namespace millrace
