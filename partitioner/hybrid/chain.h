// The model as one line of integer positions, so that a cut is a number.
//
//   const Chain chain(graph);
//   const Cut cut = chain.cut_at(chain.end() / 2);
//   const BlockList blocks = chain.blocks(group, from, to);        // what lies between two positions of one group
//
// A position counts the units that lie upstream of it. Units of a group: its (input, output) channel pairs when it is
// divided by input channels, its outputs when by output channels, its convolution groups when it is a grouped
// convolution, and one when it stays whole (recurrent layers, layers without weights). The positions of a group run
// from begin_of to end_of; end_of(g) equals begin_of(g+1) and means "between the two".
// A layer that reads few channels of the network's input is divided by output channels, every other by input channels.
// Holds what it needs; immutable, thread safe. The graph must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index.h"
#include "core/graph/graph.h"
#include "core/plan/cuts.h"

namespace millrace {

// Positions begin, begin + step, ... up to and including end.
struct Progression {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
  bool operator==(const Progression&) const = default;
};
// Ascending, disjoint.
using PositionSet = std::vector<Progression>;

class Chain {
 public:
  explicit Chain(const Graph& graph);

  const Graph& graph() const { return *graph_; }
  int64_t groups() const { return static_cast<int64_t>(parts_.size()); }
  int64_t end() const { return parts_.back().begin + parts_.back().units; }
  int64_t begin_of(int64_t group) const { return part(group).begin; }
  int64_t end_of(int64_t group) const { return part(group).begin + part(group).units; }
  // The last place before a position where whole channels, or whole layers, end; -1 before the first.
  int64_t channel_end_before(int64_t position) const;
  // The group that holds the unit right after a position; the last group for end().
  int64_t group_at(int64_t position) const;

  Split split_of(int64_t group) const { return part(group).split; }  // how the group divides when it must
  bool divisible(int64_t group) const { return part(group).units > 1; }
  // Units between whole channels, or whole convolution groups.
  int64_t units_of_channel(int64_t group) const {
    return split_of(group) == Split::kInputChannels && extent_of(group).conv_groups == 1 ? extent_of(group).outputs : 1;
  }
  const LayerExtent& extent_of(int64_t group) const { return part(group).extent; }
  const Node& head_of(int64_t group) const { return *part(group).head; }
  std::span<const Node* const> after_of(int64_t group) const { return part(group).after; }
  std::vector<Split> splits() const;

  Cut cut_at(int64_t position) const;
  // Fails with kUsage when the cut falls where the layer cannot be cut.
  int64_t position_of(const Cut& cut) const;

  // Units [from, to) of one group, as channels.
  BlockList blocks(int64_t group, int64_t from, int64_t to) const;
  // The positions inside a group, ends excluded, at which devices of a channel quantum may cut it.
  PositionSet places_inside(int64_t group, int64_t quantum) const;

 private:
  struct Part {
    const Node* head = nullptr;
    std::vector<const Node*> after;
    LayerExtent extent;
    Split split = Split::kInputChannels;
    int64_t begin = 0;
    int64_t units = 1;
    int64_t outputs_per_unit = 0;  // of a grouped convolution
  };
  const Part& part(int64_t group) const { return fast_item(parts_, group); }
  CutPlace place_in(const Part& part, int64_t units) const;

  const Graph* graph_;
  std::vector<Part> parts_;
};

}  // namespace millrace
