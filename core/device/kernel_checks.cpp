#include "core/device/kernel_checks.h"

#include <fmt/format.h>

#include "core/base/check.h"

namespace millrace {

void check_inputs(const KernelSpec& spec, std::span<const Tensor* const> inputs) {
  MILLRACE_CHECK(inputs.size() == spec.inputs.size(), "{}: {} inputs, expected {}", spec.layer, inputs.size(), spec.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    MILLRACE_CHECK(inputs[i]->shape() == spec.inputs[i] && inputs[i]->batch() == spec.micro_batch,
                   "{}: input {} is {} x {}, expected {} x {}", spec.layer, i, inputs[i]->batch(), text_of(inputs[i]->shape()),
                   spec.micro_batch, text_of(spec.inputs[i]));
}

void check_like_output(const KernelSpec& spec, const Tensor* tensor) {
  MILLRACE_CHECK(tensor != nullptr && tensor->shape() == spec.output && tensor->batch() == spec.micro_batch,
                 "{}: output is {}, expected {} x {}", spec.layer,
                 tensor == nullptr ? "missing" : fmt::format("{} x {}", tensor->batch(), text_of(tensor->shape())), spec.micro_batch,
                 text_of(spec.output));
}

void check_input_errors(const KernelSpec& spec, const ErrorBackArguments& arguments) {
  for (size_t input = 0; input < arguments.input_errors.size(); ++input) {
    if (arguments.input_errors[input] == nullptr) continue;
    MILLRACE_CHECK(arguments.adds.size() == arguments.input_errors.size(), "{}: {} add flags for {} input errors", spec.layer,
                   arguments.adds.size(), arguments.input_errors.size());
    MILLRACE_CHECK(arguments.input_errors[input]->shape() == spec.inputs[input], "{}: error of input {} is {}, expected {}", spec.layer,
                   input, text_of(arguments.input_errors[input]->shape()), text_of(spec.inputs[input]));
  }
}

void check_range(const Tensor& tensor, ChannelRange channels) {
  MILLRACE_CHECK(0 <= channels.begin && channels.begin <= channels.end && channels.end <= tensor.shape().channels,
                 "channels {} of a {} tensor", text_of(channels), text_of(tensor.shape()));
}

void check_host(const Tensor& tensor, ChannelRange channels, size_t host_size) {
  check_range(tensor, channels);
  MILLRACE_CHECK(static_cast<int64_t>(host_size) == channels.size() * tensor.shape().plane() * tensor.batch(),
                 "{} host values for channels {} of {} x {}", host_size, text_of(channels), tensor.batch(), text_of(tensor.shape()));
}

void check_copy(const Tensor& from, ChannelRange channels, const Tensor& to, int64_t to_begin) {
  check_range(from, channels);
  check_range(to, {to_begin, to_begin + channels.size()});
  MILLRACE_CHECK(from.batch() == to.batch() && from.shape().plane() == to.shape().plane(), "copy from {} x {} to {} x {}", from.batch(),
                 text_of(from.shape()), to.batch(), text_of(to.shape()));
}

}  // namespace millrace
