// What the tests of core/graph share: errors caught whole, and models written in a line.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"

namespace millrace {

// Runs `act`, which must fail with `code` and a message that holds every one of `parts`.
template <typename Act>
void expect_error(ErrorCode code, const std::vector<std::string>& parts, const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "nothing failed";
}

inline Layer layer(std::string name, Operation operation, std::vector<std::string> inputs) {
  return {.name = std::move(name), .operation = std::move(operation), .inputs = std::move(inputs)};
}

inline Model model_of(const Shape& input, std::vector<Layer> layers) {
  return {.name = "test", .input = input, .layers = std::move(layers)};
}

inline Conv2d conv(int64_t out_channels, int64_t kernel = 1, int64_t stride = 1, int64_t pad = 0) {
  return {.out_channels = out_channels,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = pad,
          .pad_w = pad};
}

inline Shape shape_after(const Operation& operation, const std::vector<Shape>& inputs) {
  return infer_shape(operation, inputs, "layer \"it\"");
}

inline std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.layer.name);
  return names;
}

}  // namespace millrace
