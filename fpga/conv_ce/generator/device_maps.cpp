#include "fpga/conv_ce/generator/device_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/placement.h"
#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/common/arithmetic/fixed_point.h"
#include "fpga/conv_ce/generator/device_design.h"
#include "fpga/conv_ce/rtl/ring_lanes.h"

namespace millrace {

namespace {

class Maps {
 public:
  Maps(DeviceDesign& design, const Placement& placement, const StationNodes& nodes)
      : design_(design), plan_(placement.plan()), graph_(placement.graph()), placement_(placement), nodes_(nodes) {
    measure_ways();
  }

  void add() {
    const int64_t head = canonical(nodes_.inputs.front().front());
    arrive(head);
    for (size_t station = 0; station < nodes_.stations.size(); ++station)
      if (nodes_.output[station] >= 0) make(nodes_.stations[station], canonical(nodes_.output[station]));
    for (size_t station = 0; station < nodes_.stations.size(); ++station)
      for (size_t operand = 0; operand < nodes_.inputs[station].size(); ++operand) read(station, operand);
    leave();
    for (size_t map = 0; map < design_.maps.size(); ++map) {
      MapDesign& made = design_.maps[map];
      if (made.readers.empty()) refuse_layer(made.layer, "nobody on this device or behind it reads its output");
      for (const MapReader& reader : made.readers)
        if (!made.error_back && !reader.next && reader.station.kind != StationKind::kShard)
          refuse_layer(made.layer, "it is not trained, and a layer behind it joins or reads it");
      give_room(made);
    }
  }

 private:
  // The layer whose output the map is, behind those that change no stream.
  int64_t canonical(int64_t node) const {
    while (node != kNetworkInput && std::holds_alternative<Flatten>(graph_.node(node).layer.operation)) node = graph_.node(node).inputs[0];
    return node;
  }

  // As streams carry it: before it was flattened.
  Shape shape_of(int64_t node) const {
    if (node == kNetworkInput) return streamed_input(graph_);
    const Node& here = graph_.node(node);
    const Operation& operation = here.layer.operation;
    const bool rearranges = std::holds_alternative<Flatten>(operation) || std::holds_alternative<Dropout>(operation);
    return rearranges ? shape_of(here.inputs[0]) : here.output;
  }

  ChannelRange whole_groups(const ChannelRange& range, int64_t node, const Shape& shape) const {
    const int64_t channels = graph_.shape_of(node).channels;
    const ChannelRange streamed =
        node == kNetworkInput ? ChannelRange{range.begin * shape.channels / channels, range.end * shape.channels / channels} : range;
    const int64_t per_channel = channels / shape.channels;  // of a flattened map, elements
    return whole_lane_groups(streamed, std::max<int64_t>(per_channel, 1), design_.lanes, shape.channels);
  }

  // Channels, of the maps that are complete before `device` and wanted from there on.
  std::map<int64_t, ChannelRange> crossing(int64_t device) const {
    std::map<int64_t, ChannelRange> found;
    for (int64_t node = kNetworkInput; node < static_cast<int64_t>(graph_.nodes().size()); ++node) {
      if (placement_.owner_of(node) >= device) continue;
      const ChannelRange needed = placement_.needed_from(node, device);
      if (needed.empty()) continue;
      const int64_t map = canonical(node);
      found[map] = hull(found[map], whole_groups(needed, node, shape_of(map)));
    }
    return found;
  }

  // No stream carries the network's input dropped: the device that has the layer refuses it, and so do those behind.
  void check_not_dropped(int64_t map) const {
    for (int64_t node = map; node != kNetworkInput; node = graph_.node(node).inputs[0]) {
      const Node& here = graph_.node(node);
      if (std::holds_alternative<Dropout>(here.layer.operation)) {
        if (reads_network_input(graph_, here)) refuse_layer(here.layer.name, kWorksOnInput);
      } else if (!std::holds_alternative<Flatten>(here.layer.operation)) {
        return;
      }
    }
  }

  size_t add_map(int64_t node, const ChannelRange& channels) {
    check_not_dropped(node);
    const Shape shape = shape_of(node);
    MapDesign map;
    map.layer = graph_.name_of(node);
    map.channels = channels;
    map.layer_channels = shape.channels;
    map.height = shape.height;
    map.width = shape.width;
    map.error_back = node != kNetworkInput && graph_.node(node).error_needed;
    map_of_[node] = design_.maps.size();
    design_.maps.push_back(std::move(map));
    return design_.maps.size() - 1;
  }

  void arrive(int64_t head) {
    std::map<int64_t, ChannelRange> arriving = crossing(design_.index);
    if (design_.index == 0) arriving[kNetworkInput] = {0, streamed_input(graph_).channels};
    if (!arriving.contains(head))
      refuse_layer(design_.shards.front().layer, fmt::format("its input {} does not come from upstream", graph_.name_of(head)));
    const auto take = [&](int64_t node, const std::string& stream, const std::string& error) {
      MapDesign& map = design_.maps[add_map(node, arriving.at(node))];
      map.arrives = true;
      map.stream = stream;
      map.error_stream = error;
    };
    take(head, "s_activation", "m_input_error");
    int64_t number = 0;
    for (const auto& [node, channels] : arriving) {
      if (node == head) continue;
      take(node, fmt::format("s_passing_{}", number), fmt::format("m_passing_error_{}", number));
      ++number;
    }
  }

  void make(const Station& station, int64_t node) {
    const size_t map = add_map(node, {0, shape_of(node).channels});
    design_.maps[map].maker = station;
    if (station.kind == StationKind::kJoin) design_.joins[station.index].map = map;
  }

  void read(size_t station, size_t operand) {
    const int64_t node = nodes_.inputs[station][operand];
    const auto found = map_of_.find(canonical(node));
    const Station& at = nodes_.stations[station];
    MILLRACE_CHECK(found != map_of_.end(), "device {} has no map of {}", design_.index, graph_.name_of(node));
    MapDesign& map = design_.maps[found->second];
    MapReader reader;
    reader.station = at;
    reader.operand = operand;
    reader.channels = {0, map.layer_channels};
    if (at.kind == StationKind::kShard) reader.channels = design_.shards[at.index].inputs;
    if (at.kind == StationKind::kJoin) design_.joins[at.index].operands.push_back(found->second);
    map.readers.push_back(reader);
    ways_back_[found->second].push_back(way_back(station));
  }

  // The first shard of the devices behind, if any computes.
  const Shard* next_shard() const {
    for (int64_t device = design_.index + 1; device < plan_.devices(); ++device)
      if (const auto pieces = placement_.on(device); !pieces.empty()) return &item(plan_.shards, pieces.front().shard);
    return nullptr;
  }

  void leave() {
    const Shard* next = next_shard();
    if (next == nullptr) {
      const int64_t scores = canonical(graph_.scores());
      MILLRACE_CHECK(map_of_.contains(scores), "device {} does not make {}", design_.index, graph_.name_of(scores));
      leave_as(scores, {0, shape_of(scores).channels}, "m_activation", "s_error");
      return;
    }
    const int64_t main = canonical(graph_.node(graph_.index_of(next->layer)).inputs[0]);
    int64_t number = 0;
    for (const auto& [node, channels] : crossing(design_.index + 1)) {
      if (node == main) {
        leave_as(node, channels, "m_activation", design_.shards.back().owner ? "s_error" : "s_input_error");
        continue;
      }
      leave_as(node, channels, fmt::format("m_passing_{}", number), fmt::format("s_passing_error_{}", number));
      ++number;
    }
  }

  void leave_as(int64_t node, const ChannelRange& channels, const std::string& stream, const std::string& error) {
    const auto found = map_of_.find(node);
    MILLRACE_CHECK(found != map_of_.end(), "device {} has no map of {} to send on", design_.index, graph_.name_of(node));
    MapReader reader;
    reader.next = true;
    reader.channels = channels;
    reader.stream = stream;
    reader.error_stream = error;
    design_.maps[found->second].readers.push_back(reader);
    // The longest way of those behind.
    WayBack way;
    for (int64_t user = 0; user < static_cast<int64_t>(graph_.nodes().size()); ++user) {
      const Node& consumer = graph_.node(user);
      const bool reads = std::ranges::any_of(consumer.inputs, [&](int64_t input) { return canonical(input) == node && input != user; });
      if (!reads || placement_.last_device_of_group(consumer.group) <= design_.index) continue;
      if (const WayBack other{item(to_end_, user), user}; other.layers >= way.layers) way = other;
    }
    ways_back_[found->second].push_back(way);
  }

  // --- How long ways are, in layers that compute.
  struct WayBack {
    int64_t layers = -1;
    int64_t head = -1;  // the layer that sends the error
  };

  void measure_ways() {
    const auto count = graph_.nodes().size();
    from_input_.resize(count);
    to_end_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes()[i];
      for (const int64_t input : node.inputs)
        if (input != kNetworkInput) from_input_[i] = std::max(from_input_[i], item(from_input_, input));
      from_input_[i] += node.computes ? 1 : 0;
    }
    for (size_t i = count; i-- > 0;) {
      const Node& node = graph_.nodes()[i];
      for (const int64_t consumer : node.consumers) to_end_[i] = std::max(to_end_[i], item(to_end_, consumer));
      to_end_[i] += node.computes ? 1 : 0;
    }
  }

  WayBack way_back(size_t station) const {
    const Station& at = nodes_.stations[station];
    int64_t node = nodes_.output[station];
    if (at.kind == StationKind::kShard) node = graph_.index_of(design_.shards[at.index].layer);
    if (at.kind == StationKind::kTail) node = graph_.index_of(design_.tails[at.index].layer);
    return {item(to_end_, node), node};
  }

  int64_t beats_of(const MapDesign& map, const ChannelRange& channels) const {
    return std::max<int64_t>(divided_up(channels.size(), design_.lanes) * map.height * map.width, 4);
  }

  void give_room(MapDesign& map) {
    const size_t index = to_size(&map - design_.maps.data());
    const std::vector<WayBack>& ways = ways_back_.at(index);
    for (size_t r = 0; r < map.readers.size(); ++r) {
      MapReader& reader = map.readers[r];
      if (!reader.next && reader.station.kind == StationKind::kJoin && !is_longest_operand(reader))
        reader.waiting_beats = beats_of(map, reader.channels);
      if (!map.error_back) continue;
      bool longest = true;
      for (size_t other = 0; other < ways.size(); ++other)
        longest = longest && (other == r || ways[other].layers < ways[r].layers || ways[other].head == ways[r].head);
      if (!longest) reader.error_beats = beats_of(map, reader.channels);
    }
  }

  // Comes last of all operands for sure.
  bool is_longest_operand(const MapReader& reader) const {
    const auto at = to_size(std::ranges::find(nodes_.stations, reader.station) - nodes_.stations.begin());
    const std::vector<int64_t>& inputs = nodes_.inputs[at];
    for (size_t other = 0; other < inputs.size(); ++other)
      if (other != reader.operand && item(from_input_, inputs[other]) >= item(from_input_, inputs[reader.operand])) return false;
    return true;
  }

  DeviceDesign& design_;
  const Plan& plan_;
  const Graph& graph_;
  const Placement& placement_;
  const StationNodes& nodes_;
  std::map<int64_t, size_t> map_of_;
  std::map<size_t, std::vector<WayBack>> ways_back_;  // of a map's readers
  std::vector<int64_t> from_input_, to_end_;
};

}  // namespace

int64_t JoinDesign::bits_of_sum(size_t operand) const {
  if (concatenates || operand + 1 == operands.size()) return kElementBits;
  return kElementBits + static_cast<int64_t>(std::bit_width(operand));
}

bool needs_aligning(const JoinDesign& join, size_t operand, int64_t lanes) {
  if (!join.concatenates) return false;
  return lies_between_lanes(join.places[operand], operand + 1 == join.places.size(), lanes);
}

void add_maps(DeviceDesign& design, const Placement& placement, const StationNodes& nodes) { Maps(design, placement, nodes).add(); }

}  // namespace millrace
