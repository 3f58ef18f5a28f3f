// How often a ring visits the two cards that fill it, where a flag says so: `--laps 7`, `--laps auto`.
//
//   asked.cluster = cluster_from(with_laps("p100+vu9p", "auto", graph), catalogue);       // p100+vu9p~7 for seven recurrent layers
#pragma once

#include <string>

#include "core/graph/graph.h"

namespace millrace {

// The cluster's name with its laps; "auto" gives one to each recurrent layer. Without laps the name as it is. Fails with kUsage on more
// laps than recurrent layers, which would leave places empty, and where the name has laps already.
std::string with_laps(const std::string& cluster, const std::string& laps, const Graph& graph);

}  // namespace millrace
