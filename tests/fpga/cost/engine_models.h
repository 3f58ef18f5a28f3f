// Networks whose engines are asked for, and the clock of boards that have them.
#pragma once

#include <string_view>

#include "core/graph/model_builder.h"
#include "core/graph/zoo.h"

namespace millrace::testing_support {

inline constexpr double kClock = 200e6;

// Of the zoo, and a network whose dense layer takes its map flat: as wide as streams are, its channels fill their lanes or not.
inline Model model_of(std::string_view name) {
  if (name != "flat map") return find_model(name);
  ModelBuilder net("flat map", {3, 12, 12});
  net.conv("conv1", 21, {.kernel = 3, .pad = 1});
  net.relu("relu1");
  net.flatten("flat");
  net.dense("fc1", 30);
  net.relu("relu2");
  net.dense("fc2", 10);
  return net.finish();
}

}  // namespace millrace::testing_support
