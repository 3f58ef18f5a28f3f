// He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015, with the later convention that the stride of
// a bottleneck sits in its 3x3 convolution (torchvision's "v1.5"; same parameters).
#include <fmt/format.h>

#include <array>

#include "core/graph/model_builder.h"
#include "core/graph/zoo_families.h"

namespace millrace {

namespace {

enum class BlockKind { kBasic, kBottleneck };

void append_conv_norm(ModelBuilder& net, const std::string& conv, const std::string& norm, int64_t channels, const Window& window) {
  net.conv_without_bias(conv, channels, window);
  net.layer(norm, BatchNorm{});
}

// Reads the layer before it; `changes_shape` when its output differs from that in stride or channels, so that the
// shortcut needs a projection. The projection stands first: from there on the chain carries its smaller output and
// conv1's, not the block's input to the end.
void append_block(ModelBuilder& net, const std::string& prefix, BlockKind block, int64_t width, int64_t stride, bool changes_shape) {
  const int64_t channels = block == BlockKind::kBottleneck ? 4 * width : width;
  const std::string input = net.last();
  std::string shortcut = input;
  if (changes_shape) {
    append_conv_norm(net, prefix + "downsample.0", prefix + "downsample.1", channels, {.kernel = 1, .stride = stride});
    shortcut = net.last();
    net.continue_from(input);
  }
  if (block == BlockKind::kBasic) {
    append_conv_norm(net, prefix + "conv1", prefix + "bn1", width, {.kernel = 3, .stride = stride, .pad = 1});
    net.relu(prefix + "relu1");
    append_conv_norm(net, prefix + "conv2", prefix + "bn2", width, {.kernel = 3, .pad = 1});
  } else {
    append_conv_norm(net, prefix + "conv1", prefix + "bn1", width, {.kernel = 1});
    net.relu(prefix + "relu1");
    append_conv_norm(net, prefix + "conv2", prefix + "bn2", width, {.kernel = 3, .stride = stride, .pad = 1});
    net.relu(prefix + "relu2");
    append_conv_norm(net, prefix + "conv3", prefix + "bn3", channels, {.kernel = 1});
  }
  net.add(prefix + "add", {net.last(), shortcut});
  net.relu(prefix + "relu");
}

Model finish_after_stem(ModelBuilder& net, BlockKind block, const std::array<int, 4>& depths, int64_t classes) {
  int64_t channels = 64;
  for (size_t stage = 0; stage < depths.size(); ++stage) {
    const int64_t width = int64_t{64} << stage;
    const int64_t stage_channels = block == BlockKind::kBottleneck ? 4 * width : width;
    for (int i = 0; i < depths[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      append_block(net, fmt::format("layer{}.{}.", stage + 1, i), block, width, stride, stride != 1 || channels != stage_channels);
      channels = stage_channels;
    }
  }
  net.layer("avgpool", GlobalPool{.kind = PoolKind::kAverage});
  net.dense("fc", classes);
  return net.finish();
}

Model resnet(const std::string& name, BlockKind block, const std::array<int, 4>& depths) {
  ModelBuilder net(name, {3, 224, 224});
  append_conv_norm(net, "conv1", "bn1", 64, {.kernel = 7, .stride = 2, .pad = 3});
  net.relu("relu");
  net.max_pool("maxpool", {.kernel = 3, .stride = 2, .pad = 1});
  return finish_after_stem(net, block, depths, 1000);
}

Model resnet18_cifar(const std::string& name) {
  ModelBuilder net(name, {3, 32, 32});
  append_conv_norm(net, "conv1", "bn1", 64, {.kernel = 3, .pad = 1});
  net.relu("relu");
  return finish_after_stem(net, BlockKind::kBasic, {2, 2, 2, 2}, 10);
}

}  // namespace

std::vector<ZooEntry> resnet_family() {
  std::vector<ZooEntry> entries{{"resnet18-cifar", "ResNet-18 for 32x32 images: 3x3 stem without stride, no max pooling", resnet18_cifar}};
  struct Member {
    int layers;
    BlockKind block;
    std::array<int, 4> depths;
  };
  const std::array<Member, 5> members{{{18, BlockKind::kBasic, {2, 2, 2, 2}},
                                       {34, BlockKind::kBasic, {3, 4, 6, 3}},
                                       {50, BlockKind::kBottleneck, {3, 4, 6, 3}},
                                       {101, BlockKind::kBottleneck, {3, 4, 23, 3}},
                                       {152, BlockKind::kBottleneck, {3, 8, 36, 3}}}};
  for (const auto& [layers, block, depths] : members)
    entries.push_back(
        {fmt::format("resnet{}", layers),
         fmt::format("ResNet with {} weight layers, {} blocks, 224x224", layers, block == BlockKind::kBasic ? "basic" : "bottleneck"),
         [block = block, depths = depths](const std::string& name) { return resnet(name, block, depths); }});
  return entries;
}

}  // namespace millrace
