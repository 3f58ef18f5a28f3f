// The families the zoo is made of. A new family is one more source file, declared here and listed in zoo.cpp.
// Internal to core/graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/documents/model.h"

namespace millrace {

struct ZooEntry {
  std::string name;
  std::string summary;
  std::function<Model(const std::string& name)> build;
  bool listed = true;  // false: a variant, found by its name but not listed
};

std::vector<ZooEntry> small_family();  // for data sets of small images
std::vector<ZooEntry> alexnet_family();
std::vector<ZooEntry> vgg_family();
std::vector<ZooEntry> resnet_family();
std::vector<ZooEntry> inception_family();  // GoogLeNet
std::vector<ZooEntry> recurrent_family();

}  // namespace millrace
