// Where parameters live when the devices that use them lack room: FPDeep's parameter balancing.
//
//   HomeProblem problem{.devices = {{.capacity = 54e6, .fixed = 20e6, .memory = "bram_bits"}, ...}, .weights = {...}};
//   std::optional<Homes> homes = place_homes(problem, 0.8);       // nobody fuller than 80%, or nothing
//
// Excess parameters go upstream only (downstream, FPDeep's paths 5 and 6 would swap directions), to the nearest device
// with room, visited from the last device to the first. For a given share of the memories this is exact: whatever
// passes a link is the excess of all devices after it, which no placement can lessen, so it finds room whenever there
// is any, and loads every link the least at the same time. O(devices + slices).
// Weights are moved to devices with the same kind of memory only. Plain values; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/documents/plan.h"

namespace millrace {

struct HomeProblem {
  struct Device {
    double capacity = 0;  // of the memory that parameters share
    double fixed = 0;     // what cannot leave
    std::string memory;   // the resource's name
  };
  // The weights that a device uses of one layer.
  struct Weights {
    int64_t user = 0;
    std::string layer;
    std::string tensor = "weight";
    int64_t elements = 0;
    double storage = 0;  // of all elements, in the unit of the capacity
  };
  std::vector<Device> devices;
  std::vector<Weights> weights;  // by user, ascending
};

struct Homes {
  std::vector<ParameterHome> remote;  // slices that live away from their user
  std::vector<double> used;           // per device, of its memory
  std::vector<int64_t> over_link;     // elements that cross each link, once
  double peak = 0;                    // the largest share used
};

// Nothing when the excess finds no room.
std::optional<Homes> place_homes(const HomeProblem& problem, double share);
// Of a device: how many elements of every size in its own memory it keeps, its own and those of others.
struct KeptSize {
  std::string memory;
  double unit = 0;  // storage of an element
  int64_t count = 0;
};
using KeptWeights = std::vector<KeptSize>;
bool is_unit(double one, double other);  // the same, but for rounding
// As somebody chose, who may know better which elements to send on than that all alike are as good; nothing where that finds no room.
std::optional<Homes> homes_as_kept(const HomeProblem& problem, std::vector<KeptWeights> kept);
// Everything at home, however full that is.
Homes local_homes(const HomeProblem& problem);
// What is missing when nothing may be fuller than `share`: the storage that finds no room, and the device nearest to it.
struct HomeShortage {
  double storage = 0;
  int64_t device = 0;
};
HomeShortage shortage_of_homes(const HomeProblem& problem, double share);

}  // namespace millrace
