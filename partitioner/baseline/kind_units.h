// The chain that strategy `kind` cuts: a group of layers is a unit; of a recurrent one x W is one, its steps another, and what
// follows it a third.
//
//   const std::vector<Unit> units = units_of(graph);
//   for (const Unit& part : parts_between(units, begin, end)) ...      // what a device with units [begin, end) holds
//
// Pure; ranges index the vector that units_of gave. Internal to partitioner/baseline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace::by_kind {

enum class Part { kWhole, kProducts, kSteps, kAfter };

// What a cut may lie between.
struct Unit {
  int64_t group = 0;
  Part part = Part::kWhole;
  bool ends = true;  // what follows the group's head is there, too
};

std::vector<Unit> units_of(const Graph& graph);
// The parts in units [from, to), those of one layer as one part.
std::vector<Unit> parts_between(const std::vector<Unit>& units, size_t from, size_t to);

// Whether what follows a layer is cut off behind `end` only where its steps alone lie before: [begin, end) is a run of units.
bool may_end(const std::vector<Unit>& units, size_t begin, size_t end);

// A device's run of units, or that of several boards that share the steps of one layer.
struct Stretch {
  size_t device = 0, begin = 0, end = 0;
  std::vector<ChannelRange> units;  // of each of several boards
  size_t boards() const { return std::max<size_t>(1, units.size()); }
};

Shard shard_of(const Graph& graph, const Unit& unit, int64_t device);

}  // namespace millrace::by_kind
