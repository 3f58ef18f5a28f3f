// One order for nodes that branch, and what crosses each cut of it. Internal to partitioner/profile.
//
//   const Profile chain = linearised(load_profile("graph.txt"));
//   save(csv_of(chain), "chain.csv");
//
// Of the nodes whose operands are all placed, the one with the smallest name comes next, digits compared as numbers: the order
// in which frameworks number their operations. A tensor crosses every cut between its maker and its last taker, once each,
// however many take it. A linearised profile can be cut in fewer places than its graph: see antichain.h.
// O((nodes + edges) log nodes).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/profile/cut_space.h"
#include "partitioner/profile/profile.h"

namespace millrace {

// Indices of the nodes; fewer than there are nodes when the edges form a cycle: those on cycles, and behind them, lack.
std::vector<int64_t> topological_order(std::span<const ProfileNode> nodes, std::span<const ProfileEdge> edges);

// For each of the size() + 1 cuts of the order the nodes are in: bytes made before it and taken behind it. 0 at both ends.
std::vector<double> crossing_bytes(const Profile& profile);

// The same nodes as a chain; out_bytes is what crosses the cut behind each.
Profile linearised(const Profile& profile);

// Every cut of the order the nodes are in.
CutSpace linear_cuts(const Profile& profile);

}  // namespace millrace
