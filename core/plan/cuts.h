// Where a link cuts the chain of layers, and the blocks that lie between two cuts of one layer.
//
//   const LayerExtent extent = extent_of(graph, group);
//   const BlockList blocks = blocks_between(extent, Split::kInputChannels, {.channel = 3, .outputs = 16}, {.channel = 9});
//
// A cut position in one layer: input channels (ICP) or output channels (OCP) below `channel` go upstream, and of the
// boundary channel itself the first `outputs` outputs (ICP only). A grouped convolution is cut by its outputs, between
// its groups. A cut {g, 0, 0} lies between groups g-1 and g.
// Plain values, no allocation: searches build millions of them.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

struct Cut {
  int64_t group = 0;
  int64_t channel = 0;
  int64_t outputs = 0;
  auto operator<=>(const Cut&) const = default;
};

// The channels of a layer group's head that a cut divides.
struct LayerExtent {
  int64_t inputs = 0;
  int64_t outputs = 0;  // of the raw sum
  int64_t conv_groups = 1;
};
LayerExtent extent_of(const Graph& graph, int64_t group);

// A place inside one layer.
struct CutPlace {
  int64_t channel = 0;
  int64_t outputs = 0;
  auto operator<=>(const CutPlace&) const = default;
};
// Just past the layer's last channel.
CutPlace end_of(const LayerExtent& extent, Split split);

// Up to three blocks: the outputs left of a boundary channel, whole channels, the outputs right of a boundary channel.
class BlockList {
 public:
  void push_back(const Block& block) { blocks_[count_++] = block; }
  operator std::span<const Block>() const { return {blocks_.data(), count_}; }
  const Block* begin() const { return blocks_.data(); }
  const Block* end() const { return blocks_.data() + count_; }

 private:
  std::array<Block, 3> blocks_;
  size_t count_ = 0;
};

// Places must lie inside the layer, `begin` before `end`.
BlockList blocks_between(const LayerExtent& extent, Split split, CutPlace begin, CutPlace end);

}  // namespace millrace
