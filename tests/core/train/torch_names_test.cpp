#include "core/train/torch_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/graph/zoo.h"
#include "core/train/segment_state.h"

namespace millrace {
namespace {

// Tensors of the given dimensions, each filled with a number of its own.
TensorMap tensors_of(const std::map<std::string, std::vector<int64_t>>& dimensions) {
  TensorMap tensors;
  float value = 1;
  for (const auto& [name, extents] : dimensions) {
    int64_t elements = 1;
    for (const int64_t extent : extents) elements *= extent;
    tensors[name] = host_tensor(extents, std::span<const float>(std::vector<float>(static_cast<size_t>(elements), value++)));
  }
  return tensors;
}

TEST(TorchNames, OfVggAndAlexNetAreTorchvisions) {
  // state_dict().keys() of torchvision 0.14's vgg11 and alexnet.
  const std::map<std::string, std::string> vgg = torch_names(zoo_model("vgg11"));
  EXPECT_EQ(vgg.size(), 22U);
  EXPECT_EQ(vgg.at("conv1_1.weight"), "features.0.weight");
  EXPECT_EQ(vgg.at("conv2_1.bias"), "features.3.bias");
  EXPECT_EQ(vgg.at("conv3_2.weight"), "features.8.weight");
  EXPECT_EQ(vgg.at("conv5_2.weight"), "features.18.weight");
  EXPECT_EQ(vgg.at("fc6.weight"), "classifier.0.weight");
  EXPECT_EQ(vgg.at("fc7.weight"), "classifier.3.weight");
  EXPECT_EQ(vgg.at("fc8.bias"), "classifier.6.bias");
  const std::map<std::string, std::string> alexnet = torch_names(zoo_model("alexnet-torch"));
  EXPECT_EQ(alexnet.at("conv1.weight"), "features.0.weight");
  EXPECT_EQ(alexnet.at("conv3.weight"), "features.6.weight");
  EXPECT_EQ(alexnet.at("conv5.weight"), "features.10.weight");
  EXPECT_EQ(alexnet.at("fc6.weight"), "classifier.1.weight");
  EXPECT_EQ(alexnet.at("fc7.weight"), "classifier.4.weight");
  EXPECT_EQ(alexnet.at("fc8.weight"), "classifier.6.weight");
  EXPECT_TRUE(torch_names(zoo_model("resnet18")).empty()) << "the zoo's names are torchvision's already";
  EXPECT_TRUE(torch_names(zoo_model("alexnet")).empty()) << "torchvision has no such network";
}

TEST(FitWeights, TakesEitherNamesAndNamesTheRest) {
  const Graph graph(zoo_model("vgg11-cifar"));
  std::map<std::string, std::vector<int64_t>> dimensions;
  for (const Node& node : graph.nodes())
    for (const ParameterSpec& parameter : node.parameters) dimensions[stored_name(node, parameter)] = parameter.dimensions;
  const TensorMap ours = tensors_of(dimensions);
  EXPECT_EQ(fit_weights(graph, ours).taken, ours);
  EXPECT_TRUE(fit_weights(graph, ours).notes().empty());
  TensorMap theirs = with_torch_names(graph.model(), ours);
  EXPECT_EQ(theirs.count("conv1_1.weight"), 0U);
  EXPECT_EQ(fit_weights(graph, theirs).taken, ours);

  theirs.erase("features.3.bias");
  theirs["fc.weight"] = host_tensor({1000, 512}, std::span<const float>(std::vector<float>(512'000)));
  theirs["classifier.0.weight"] = host_tensor({2}, std::span<const float>(std::vector<float>(2)));
  theirs["bn1.num_batches_tracked"] = host_tensor({}, std::span<const float>(std::vector<float>(1)));
  const WeightsFit fit = fit_weights(graph, theirs);
  EXPECT_THAT(fit.missing, testing::ElementsAre("conv2_1.bias"));
  EXPECT_THAT(fit.misshapen, testing::ElementsAre("fc.weight is F32 [1000, 512], the model wants [10, 512]"));
  EXPECT_THAT(fit.superfluous, testing::ElementsAre("classifier.0.weight"));
  EXPECT_EQ(fit.taken.size(), ours.size() - 2);
  EXPECT_EQ(fit.notes().size(), 3U);
}

}  // namespace
}  // namespace millrace
