// The models Millrace knows by name.
//
//   const Graph graph(zoo_model("vgg16"));
//   for (const std::string& name : zoo_names()) fmt::print("{:<18} {}\n", name, zoo_summary(name));
//
// Every model ends in its loss, called "loss": softmax cross-entropy, or CTC for speech. Layers bear their published
// names (conv1_1, fc6, ...); those of ResNet and GoogLeNet are torchvision's, so that weights saved there find their layer
// here.
// Models are built anew at each call; thread safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/documents/model.h"

namespace millrace {

// Family by family, small networks first; without variants such as residual-rnn-48-skip2, which zoo_model also knows.
std::vector<std::string> zoo_names();
// Both fail with kUsage, suggesting the nearest name.
Model zoo_model(std::string_view name);
// A zoo name or the path of a .textproto document: what people give as --model.
Model find_model(std::string_view name_or_path);
// One line: what it is, and where this version of it differs from others.
std::string zoo_summary(std::string_view name);

}  // namespace millrace
