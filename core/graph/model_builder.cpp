#include "core/graph/model_builder.h"

#include <utility>

namespace millrace {

ModelBuilder::ModelBuilder(std::string name, const Shape& input) {
  model_.name = std::move(name);
  model_.input = input;
}

std::string ModelBuilder::layer(std::string name, Operation operation) { return layer(std::move(name), std::move(operation), {last_}); }

std::string ModelBuilder::layer(std::string name, Operation operation, std::vector<std::string> inputs) {
  last_ = name;
  model_.layers.push_back({.name = std::move(name), .operation = std::move(operation), .inputs = std::move(inputs)});
  return last_;
}

namespace {

Conv2d square_conv(int64_t out_channels, const Window& window) {
  return {.out_channels = out_channels,
          .kernel_h = window.kernel,
          .kernel_w = window.kernel,
          .stride_h = window.stride,
          .stride_w = window.stride,
          .pad_h = window.pad,
          .pad_w = window.pad};
}

}  // namespace

std::string ModelBuilder::grouped_conv(std::string name, int64_t out_channels, const Window& window, int64_t groups) {
  Conv2d conv = square_conv(out_channels, window);
  conv.groups = groups;
  return layer(std::move(name), conv);
}

std::string ModelBuilder::conv_without_bias(std::string name, int64_t out_channels, const Window& window) {
  Conv2d conv = square_conv(out_channels, window);
  conv.bias = false;
  return layer(std::move(name), conv);
}

std::string ModelBuilder::max_pool(std::string name, const Window& window, bool ceil_mode) {
  return layer(std::move(name), Pool2d{.kind = PoolKind::kMax,
                                       .kernel_h = window.kernel,
                                       .kernel_w = window.kernel,
                                       .stride_h = window.stride,
                                       .stride_w = window.stride,
                                       .pad_h = window.pad,
                                       .pad_w = window.pad,
                                       .ceil_mode = ceil_mode});
}

Model ModelBuilder::finish(const Operation& loss) {
  layer("loss", loss);
  last_ = kInputName;
  return std::exchange(model_, {});
}

}  // namespace millrace
