// The parameters of one direction of a recurrent layer, fetched from the host as real numbers. Internal to fpga/emulated.
//
//   const RecurrentParameters p = recurrent_parameters(host, shape, direction, arguments.parameters);
//
// What the layer does not have is empty.
#pragma once

#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/device/recurrent_shape.h"
#include "fpga/emulated/emulated_tensor.h"

namespace millrace::emulated {

struct RecurrentParameters {
  std::vector<float> input_weight, hidden_weight, input_bias, hidden_bias, projection;
};

inline RecurrentParameters recurrent_parameters(Device& host, const RecurrentShape& shape, int64_t direction,
                                                std::span<const Tensor* const> parameters) {
  const auto values = [&](bool has, size_t index) {
    if (!has) return std::vector<float>{};
    const Tensor& tensor = *host_of(parameters[index]);
    std::vector<float> floats(to_size(tensor.elements()));
    host.read(tensor, whole(tensor), std::span<float>(floats));
    return floats;
  };
  return {.input_weight = values(shape.multiplies_input, shape.input_weight(direction)),
          .hidden_weight = values(true, shape.hidden_weight(direction)),
          .input_bias = values(true, shape.input_bias(direction)),
          .hidden_bias = values(true, shape.hidden_bias(direction)),
          .projection = values(shape.projects, shape.projection(direction))};
}

}  // namespace millrace::emulated
