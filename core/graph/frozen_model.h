// The same network with parameters that stay as they are: what a plan for inference holds.
//
//   const Graph graph(frozen_model(find_model("lrcn-lstm-256")));      // no error flows, no gradient is made
//
// A pure function.
#pragma once

#include <utility>

#include "core/documents/model.h"

namespace millrace {

inline Model frozen_model(Model model) {
  for (Layer& layer : model.layers) layer.frozen = true;
  return model;
}

}  // namespace millrace
