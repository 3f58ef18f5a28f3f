// The maps of a device: where each comes from, who reads it, and what joins several of them.
//
//   for (const MapDesign& map : design.maps)
//     for (const MapReader& reader : map.readers) fmt::print("{} is read by {}\n", map.layer, reader.index);
//
// A map is what a layer leaves behind for others: it comes from upstream, or out of a shard that ends its group, a join (an addition or
// a concatenation), or a tail, which does what follows a join (ReLU, response norm, pooling, dropout) or what only one of a map's readers
// does. Every reader takes the channels that it needs, the next devices too; the errors of all readers are added, the last one's first.
// Of what crosses a link, one map is the one that the next device's first shard reads (m_activation); the others, which pass shards on
// their way to later ones, have streams of their own: m_passing_0, m_passing_1, .. in the order of the layers, on both sides alike.
// What is joined did not leave its common origin at once: what came by the shorter way waits for one sample at most, on the way forward at
// a join and on the way back where errors are added. So no ring stands still for lack of room.
// Fails with kUnavailable, naming the layer, on a map that is twice in a sum or a concatenation, and a batch norm behind a join.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

class Placement;
struct DeviceDesign;
struct ShardDesign;

// What computes on a device, in the order of the way forward.
enum class StationKind { kShard, kTail, kJoin };
struct Station {
  StationKind kind = StationKind::kShard;
  size_t index = 0;  // into DeviceDesign's shards, tails or joins
  bool operator==(const Station&) const = default;
};

struct MapReader {
  bool next = false;      // the next devices
  Station station;        // of this one
  size_t operand = 0;     // of a join
  ChannelRange channels;  // of the layer's, in whole groups of lanes
  // Room for what waits, in beats; 0: nothing does.
  int64_t waiting_beats = 0, error_beats = 0;
  int64_t ultra_waiting = 0, ultra_errors = 0;  // bits of a beat in UltraRAM
  // Ports, of the next devices; without an error stream nobody sends errors.
  std::string stream, error_stream;
};

struct MapDesign {
  std::string layer;
  ChannelRange channels;  // that are here, in whole groups of lanes
  int64_t layer_channels = 0, height = 1, width = 1;
  bool arrives = false;              // from upstream, or as the network's input
  Station maker;                     // otherwise
  std::string stream, error_stream;  // ports, where it arrives
  bool error_back = false;           // somebody needs its errors
  std::vector<MapReader> readers;    // in the order of the layers, the next devices last
};

// A sum or a concatenation of maps. A sum is made in their order, exactly, and saturated once.
struct JoinDesign {
  std::string layer;
  bool concatenates = false;
  std::vector<size_t> operands;      // maps
  std::vector<ChannelRange> places;  // of the operands' channels in what leaves
  size_t map = 0;                    // that leaves

  // Of an element of the sum of the operands up to this one: wide enough until it is complete.
  int64_t bits_of_sum(size_t operand) const;
};

// Of an operand that does not begin at the first lane, or ends within a group.
bool needs_aligning(const JoinDesign& join, size_t operand, int64_t lanes);

// Adds what follows the sum of `shard`, a member of `design` that ends its group: in the shard itself as far as its hardware goes, tails
// and joins behind it. `nodes` collects whose output each station is.
struct StationNodes {
  std::vector<Station> stations;
  std::vector<std::vector<int64_t>> inputs;  // of each station
  std::vector<int64_t> output;               // -1: partial sums
};
void add_layers_after(DeviceDesign& design, size_t shard, const Group& group, const Graph& graph, StationNodes& nodes);

// Not built yet, of a layer: kUnavailable, with what can train it.
inline constexpr const char* kWorksOnInput = "it works on the network's input";
inline constexpr const char* kNotTrained = "it is not trained";
[[noreturn]] void refuse_layer(const std::string& layer, const std::string& reason);

// Maps with their readers, once all stations are there.
void add_maps(DeviceDesign& design, const Placement& placement, const StationNodes& nodes);

}  // namespace millrace
