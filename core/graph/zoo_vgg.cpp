// Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014: five blocks of 3x3
// convolutions, each ended by a 2x2 max pooling. Configurations A (11), D (16) and E (19).
#include <fmt/format.h>

#include <array>

#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

constexpr std::array<int64_t, 5> kWidths{64, 128, 256, 512, 512};
using Depths = std::array<int, 5>;  // convolutions per block

void append_blocks(ModelBuilder& net, const Depths& depths) {
  for (size_t block = 0; block < depths.size(); ++block) {
    for (int i = 1; i <= depths[block]; ++i) {
      net.conv(fmt::format("conv{}_{}", block + 1, i), kWidths[block], {.kernel = 3, .pad = 1});
      net.relu(fmt::format("relu{}_{}", block + 1, i));
    }
    net.max_pool(fmt::format("pool{}", block + 1), {.kernel = 2, .stride = 2});
  }
  net.flatten("flatten");
}

Model vgg(const std::string& name, const Depths& depths) {
  ModelBuilder net(name, {3, 224, 224});
  append_blocks(net, depths);
  net.dense("fc6", 4096);
  net.relu("relu6");
  net.dropout("drop6", 0.5);
  net.dense("fc7", 4096);
  net.relu("relu7");
  net.dropout("drop7", 0.5);
  net.dense("fc8", 1000);
  return net.finish();
}

// After five poolings a 32x32 image is one position of 512 features: one dense layer of ten classes suffices, in place
// of the three that hold most of VGG's weights.
Model vgg_cifar(const std::string& name, const Depths& depths) {
  ModelBuilder net(name, {3, 32, 32});
  append_blocks(net, depths);
  net.dense("fc", 10);
  return net.finish();
}

}  // namespace

std::vector<ZooEntry> vgg_family() {
  std::vector<ZooEntry> entries;
  struct Member {
    int layers;
    Depths depths;
  };
  const std::array<Member, 3> members{{{11, {1, 1, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}}};
  for (const auto& [layers, depths] : members)
    entries.push_back({fmt::format("vgg{}", layers), fmt::format("VGG with {} weight layers, 224x224", layers),
                       [depths = depths](const std::string& name) { return vgg(name, depths); }});
  for (const auto& [layers, depths] : members)
    entries.push_back({fmt::format("vgg{}-cifar", layers),
                       fmt::format("the convolutions of VGG-{} for 32x32 images, one dense layer 512-10 as head", layers),
                       [depths = depths](const std::string& name) { return vgg_cifar(name, depths); }});
  return entries;
}

}  // namespace millrace
