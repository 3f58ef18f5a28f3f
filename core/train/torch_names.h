// The names that PyTorch's model collection gives to the weights of the zoo's networks, and fitting a file of weights to a network.
//
//   TensorMap weights = load_weights("resnet18.safetensors");
//   const WeightsFit fit = fit_weights(graph, weights);          // fit.taken are this network's, under its own names
//   for (const std::string& line : fit.notes()) log::warning("{}", line);
//   save_safetensors(path, {with_torch_names(graph.model(), content.weights), {}});
//
// ResNet and GoogLeNet bear torchvision's names in the zoo; AlexNet and VGG bear the published ones (conv1_1, fc6), torchvision's are
// places in two lists: features.0.weight, classifier.6.bias. A file is read under either. Every other network's tensors are called as its
// layers. Shapes and the order of values are PyTorch's throughout. Plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/train/safetensors.h"

namespace millrace {

// Name here -> torchvision's, where they differ.
std::map<std::string, std::string> torch_names(const Model& model);
TensorMap with_torch_names(const Model& model, TensorMap weights);

struct WeightsFit {
  TensorMap taken;
  std::map<std::string, std::string> sources;  // of each one taken: its name in the file
  std::vector<std::string> missing;            // names of parameters that the file lacks
  std::vector<std::string> misshapen;          // "fc.weight is F32 [10, 512], the model wants [1000, 512]"
  std::vector<std::string> superfluous;        // names of tensors that the model has no use for
  // One sentence for each of the three that is not empty, long lists cut.
  std::vector<std::string> notes() const;
};
WeightsFit fit_weights(const Graph& graph, TensorMap weights);

}  // namespace millrace
