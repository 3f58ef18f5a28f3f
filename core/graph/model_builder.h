// Writes a model layer by layer; each call appends one layer and returns its name, and reads the layer before it unless
// told otherwise. Internal to core/graph.
//
//   ModelBuilder net("tiny", {1, 8, 8});
//   net.conv("conv1", 16, {.kernel = 3, .pad = 1});
//   const std::string shortcut = net.relu("relu1");
//   net.conv("conv2", 16, {.kernel = 3, .pad = 1});
//   net.add("join", {net.last(), shortcut});
//   net.flatten("flatten");
//   net.dense("fc", 10);
//   const Model model = net.finish();        // appends the loss, called "loss"
//
// Nothing is checked here: Graph does that. Not thread safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/documents/model.h"

namespace millrace {

// Square windows, as almost every published network has.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t pad = 0;
};

class ModelBuilder {
 public:
  ModelBuilder(std::string name, const Shape& input);

  // The layer appended last; the network's input at first.
  const std::string& last() const { return last_; }
  // Lets the next layer read this one, to begin a branch.
  void continue_from(std::string layer) { last_ = std::move(layer); }

  std::string layer(std::string name, Operation operation);
  std::string layer(std::string name, Operation operation, std::vector<std::string> inputs);

  std::string conv(std::string name, int64_t out_channels, const Window& window) {
    return grouped_conv(std::move(name), out_channels, window, 1);
  }
  std::string grouped_conv(std::string name, int64_t out_channels, const Window& window, int64_t groups);
  // For a batch norm to follow, which has a bias of its own.
  std::string conv_without_bias(std::string name, int64_t out_channels, const Window& window);
  std::string max_pool(std::string name, const Window& window, bool ceil_mode = false);
  std::string dense(std::string name, int64_t out_features) { return layer(std::move(name), Dense{.out_features = out_features}); }
  std::string relu(std::string name) { return layer(std::move(name), Activation{.kind = ActivationKind::kRelu}); }
  std::string dropout(std::string name, double probability) { return layer(std::move(name), Dropout{.probability = probability}); }
  std::string flatten(std::string name) { return layer(std::move(name), Flatten{}); }
  std::string add(std::string name, std::vector<std::string> inputs) { return layer(std::move(name), Add{}, std::move(inputs)); }
  std::string concat(std::string name, std::vector<std::string> inputs) { return layer(std::move(name), Concat{}, std::move(inputs)); }

  // Appends the loss, called "loss". The builder is empty afterwards.
  Model finish(const Operation& loss = SoftmaxCrossEntropy{});

 private:
  Model model_;
  std::string last_{kInputName};
};

}  // namespace millrace
