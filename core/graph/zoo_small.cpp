// Networks for small images: minutes or seconds of training on one core.
#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

// LeCun et al., "Gradient-based learning applied to document recognition", 1998, with ReLU and max pooling in place of
// scaled tanh and trained subsampling, and full connections between pool1 and conv2: 61,706 parameters.
Model lenet5(const std::string& name) {
  ModelBuilder net(name, {1, 32, 32});
  net.conv("conv1", 6, {.kernel = 5});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 2, .stride = 2});
  net.conv("conv2", 16, {.kernel = 5});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.flatten("flatten");
  net.dense("fc1", 120);
  net.relu("relu3");
  net.dense("fc2", 84);
  net.relu("relu4");
  net.dense("fc3", 10);
  return net.finish();
}

Model digits_cnn(const std::string& name) {
  ModelBuilder net(name, {1, 8, 8});
  net.conv("conv1", 16, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.conv("conv2", 32, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool", {.kernel = 2, .stride = 2});
  net.flatten("flatten");
  net.dense("fc1", 64);
  net.relu("relu3");
  net.dense("fc2", 10);
  return net.finish();
}

Model fashion_cnn(const std::string& name) {
  ModelBuilder net(name, {1, 28, 28});
  net.conv("conv1", 16, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.max_pool("pool1", {.kernel = 2, .stride = 2});
  net.conv("conv2", 32, {.kernel = 3, .pad = 1});
  net.relu("relu2");
  net.max_pool("pool2", {.kernel = 2, .stride = 2});
  net.conv("conv3", 64, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.max_pool("pool3", {.kernel = 2, .stride = 2});
  net.flatten("flatten");
  net.dense("fc1", 128);
  net.relu("relu4");
  net.dense("fc2", 10);
  return net.finish();
}

Model mlp(const std::string& name) {
  ModelBuilder net(name, {1, 28, 28});
  net.flatten("flatten");
  net.dense("fc1", 256);
  net.relu("relu1");
  net.dense("fc2", 128);
  net.relu("relu2");
  net.dense("fc3", 10);
  return net.finish();
}

}  // namespace

std::vector<ZooEntry> small_family() {
  return {
      {"mlp", "two hidden layers, 256 and 128 wide, for 28x28 grey images", mlp},
      {"digits-cnn", "two convolutions, 16 and 32 wide, for 8x8 digits", digits_cnn},
      {"fashion-cnn", "three convolutions, 16, 32 and 64 wide, for 28x28 grey images", fashion_cnn},
      {"lenet5", "LeNet-5 with ReLU and max pooling, 32x32 grey images", lenet5},
  };
}

}  // namespace millrace
