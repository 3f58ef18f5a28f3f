// Which devices of a cluster are there, and how many ranks on which hosts drive them.
//
//   const RankPlacement now = place({.whole = cluster, .hosts = hosts, .replicas = 1, .cores = 16}, present);
//   fmt::print("{} of {} devices on {} ranks\n", now.cluster.devices.size(), cluster.devices.size(), now.ranks);
//
// Without hosts everything is on this machine and always there. With hosts each slot has room for one device: a device whose document
// names a host is on that host or nowhere, any other takes the slots in their order. What is left keeps the order of the ring; a link
// across devices that are gone is as fast as the slowest of those it stands for, and as far as all of them.
// A pure function. Fails with kUsage where the wishes contradict each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/cluster.h"
#include "deploy/launch/hosts.h"

namespace millrace {

struct PlacementWishes {
  Cluster whole;
  std::vector<Host> hosts = {};  // all there may be; none: this machine alone
  int64_t replicas = 1;
  int64_t threads = 1;                // per rank
  std::optional<int64_t> ranks = {};  // none: one per device, or as many as the cores take on this machine
  int64_t cores = 1;                  // of this machine
};

struct RankPlacement {
  Cluster cluster;               // what there is of it; may be empty
  std::vector<Host> hosts = {};  // slots: ranks there, in the order of the ranks; none: this machine alone
  int64_t ranks = 0;
  bool operator==(const RankPlacement&) const = default;
};

RankPlacement place(const PlacementWishes& wishes, const std::vector<Host>& present);

// "cpux3", "u280x2+h200": how --cluster takes the devices by kind. Links and names are then those that --cluster gives them.
std::string shorthand_of(const Cluster& cluster);

// Cores that this process may use: two threads of one core count once.
int64_t usable_cores();

}  // namespace millrace
