// Which layers of a network that trains no hardware is generated for, whatever the cuts: the planner asks what the generator would say.
//
//   const std::map<std::string, std::string> refused = layers_without_hardware(graph);
//   if (refused.contains("drop1")) ...      // "it works on the network's input; no hardware is generated for it yet; ..."
//
// Networks with recurrent layers or look-ups have none at all and are left out: whoever plans them says so. A pure function of the graph.
#pragma once

#include <map>
#include <string>

#include "core/graph/graph.h"

namespace millrace {

// Whether boards take the network's rows as they come; recurrent layers and look-ups do not.
bool streams_rows(const Graph& graph);

// By layer; the first of each group of layers.
std::map<std::string, std::string> layers_without_hardware(const Graph& graph);

}  // namespace millrace
