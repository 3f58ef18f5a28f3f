// Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", 2012, and its
// single-tower successor.
#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

constexpr Window kPool{.kernel = 3, .stride = 2};

// dropout, 4096, dropout, 4096, 1000: in the 2012 net dropout follows the activation, in the later one it precedes fc6.
void append_classifier(ModelBuilder& net, bool dropout_first) {
  net.flatten("flatten");
  if (dropout_first) net.dropout("drop5", 0.5);
  net.dense("fc6", 4096);
  net.relu("relu6");
  net.dropout("drop6", 0.5);
  net.dense("fc7", 4096);
  net.relu("relu7");
  if (!dropout_first) net.dropout("drop7", 0.5);
  net.dense("fc8", 1000);
}

// The published widths. The two GPUs of 2012 split conv2, conv4 and conv5 into two groups; without them the
// convolutions take 1,076,634,144 multiply-accumulates, which is what FPDeep maps.
Model alexnet_2012(const std::string& name, int64_t groups) {
  const LocalResponseNorm norm{.size = 5, .alpha = 5 * 1e-4, .beta = 0.75, .k = 2.0};  // the paper does not divide its 1e-4 by the size
  ModelBuilder net(name, {3, 227, 227});
  net.conv("conv1", 96, {.kernel = 11, .stride = 4});
  net.relu("relu1");
  net.layer("norm1", norm);
  net.max_pool("pool1", kPool);
  net.grouped_conv("conv2", 256, {.kernel = 5, .pad = 2}, groups);
  net.relu("relu2");
  net.layer("norm2", norm);
  net.max_pool("pool2", kPool);
  net.conv("conv3", 384, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.grouped_conv("conv4", 384, {.kernel = 3, .pad = 1}, groups);
  net.relu("relu4");
  net.grouped_conv("conv5", 256, {.kernel = 3, .pad = 1}, groups);
  net.relu("relu5");
  net.max_pool("pool5", kPool);
  append_classifier(net, /*dropout_first=*/false);
  return net.finish();
}

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014, as torchvision builds it.
Model alexnet_torch(const std::string& name) {
  ModelBuilder net(name, {3, 224, 224});
  net.conv("conv1", 64, {.kernel = 11, .stride = 4, .pad = 2});
  net.relu("relu1");
  net.max_pool("pool1", kPool);
  net.conv("conv2", 192, {.kernel = 5, .pad = 2});
  net.relu("relu2");
  net.max_pool("pool2", kPool);
  net.conv("conv3", 384, {.kernel = 3, .pad = 1});
  net.relu("relu3");
  net.conv("conv4", 256, {.kernel = 3, .pad = 1});
  net.relu("relu4");
  net.conv("conv5", 256, {.kernel = 3, .pad = 1});
  net.relu("relu5");
  net.max_pool("pool5", kPool);
  append_classifier(net, /*dropout_first=*/true);
  return net.finish();
}

}  // namespace

std::vector<ZooEntry> alexnet_family() {
  return {
      {"alexnet", "AlexNet of 2012, widths 96-256-384-384-256 without groups, as FPDeep maps it",
       [](const std::string& name) { return alexnet_2012(name, 1); }},
      {"alexnet-grouped", "AlexNet of 2012 with its two groups in conv2, conv4 and conv5",
       [](const std::string& name) { return alexnet_2012(name, 2); }},
      {"alexnet-torch", "AlexNet of 2014, widths 64-192-384-256-256, as torchvision has it", alexnet_torch},
  };
}

}  // namespace millrace
