// Szegedy et al., "Going deeper with convolutions", 2014, as torchvision builds it without auxiliary heads: batch norm
// after every convolution, and 3x3 kernels in the branch that the paper gives 5x5.
#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

// Output channels of the four branches; `reduce` are the 1x1 convolutions ahead of the larger kernels.
struct InceptionWidths {
  int64_t branch1;
  int64_t reduce2, branch2;
  int64_t reduce3, branch3;
  int64_t branch4;
};

// torchvision's BasicConv2d: "<name>.conv" and "<name>.bn".
std::string append_conv(ModelBuilder& net, const std::string& name, int64_t channels, const Window& window) {
  net.conv_without_bias(name + ".conv", channels, window);
  net.layer(name + ".bn", BatchNorm{.epsilon = 1e-3});
  return net.relu(name + ".relu");
}

void append_inception(ModelBuilder& net, const std::string& name, const InceptionWidths& widths) {
  const std::string input = net.last();
  const std::string branch1 = append_conv(net, name + ".branch1", widths.branch1, {.kernel = 1});

  net.continue_from(input);
  append_conv(net, name + ".branch2.0", widths.reduce2, {.kernel = 1});
  const std::string branch2 = append_conv(net, name + ".branch2.1", widths.branch2, {.kernel = 3, .pad = 1});

  net.continue_from(input);
  append_conv(net, name + ".branch3.0", widths.reduce3, {.kernel = 1});
  const std::string branch3 = append_conv(net, name + ".branch3.1", widths.branch3, {.kernel = 3, .pad = 1});

  net.continue_from(input);
  net.max_pool(name + ".branch4.0", {.kernel = 3, .stride = 1, .pad = 1}, /*ceil_mode=*/true);
  const std::string branch4 = append_conv(net, name + ".branch4.1", widths.branch4, {.kernel = 1});

  net.concat(name, {branch1, branch2, branch3, branch4});
}

Model googlenet(const std::string& name) {
  ModelBuilder net(name, {3, 224, 224});
  append_conv(net, "conv1", 64, {.kernel = 7, .stride = 2, .pad = 3});
  net.max_pool("maxpool1", {.kernel = 3, .stride = 2}, /*ceil_mode=*/true);
  append_conv(net, "conv2", 64, {.kernel = 1});
  append_conv(net, "conv3", 192, {.kernel = 3, .pad = 1});
  net.max_pool("maxpool2", {.kernel = 3, .stride = 2}, /*ceil_mode=*/true);
  append_inception(net, "inception3a", {64, 96, 128, 16, 32, 32});
  append_inception(net, "inception3b", {128, 128, 192, 32, 96, 64});
  net.max_pool("maxpool3", {.kernel = 3, .stride = 2}, /*ceil_mode=*/true);
  append_inception(net, "inception4a", {192, 96, 208, 16, 48, 64});
  append_inception(net, "inception4b", {160, 112, 224, 24, 64, 64});
  append_inception(net, "inception4c", {128, 128, 256, 24, 64, 64});
  append_inception(net, "inception4d", {112, 144, 288, 32, 64, 64});
  append_inception(net, "inception4e", {256, 160, 320, 32, 128, 128});
  net.max_pool("maxpool4", {.kernel = 2, .stride = 2}, /*ceil_mode=*/true);
  append_inception(net, "inception5a", {256, 160, 320, 32, 128, 128});
  append_inception(net, "inception5b", {384, 192, 384, 48, 128, 128});
  net.layer("avgpool", GlobalPool{.kind = PoolKind::kAverage});
  net.dropout("dropout", 0.2);
  net.dense("fc", 1000);
  return net.finish();
}

}  // namespace

std::vector<ZooEntry> inception_family() {
  return {{"googlenet", "GoogLeNet with batch norm and without auxiliary heads, as torchvision has it, 224x224", googlenet}};
}

}  // namespace millrace
