// What the engines of a ring have in common: how wide its streams are, and which channels a shard then holds. Planner and generator ask
// the same functions.
//
//   const ConvolutionShape whole = *layer_shape(graph, node);
//   stream_cycles(whole, /*lanes=*/4);                              // the larger map around the layer, a beat per cycle
//   const ChannelRange held = whole_lane_groups({12, 88}, 1, 16, 128);    // 0 to 96
//   held_shape(whole, {held, {0, whole.outputs}}, /*lanes=*/16);          // what the shard's engine computes
//
// All streams of a ring are equally wide: so many channels of one pixel per beat. A cut may fall anywhere; both neighbours hold the
// group of lanes that it falls into.
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/conv_ce/arithmetic/after_sum.h"
#include "fpga/conv_ce/arithmetic/convolution_shape.h"

namespace millrace {

// The widest streams, in channels: a power of two.
inline constexpr int64_t kMostStreamLanes = 16;

// Planned times are rounded up to a picosecond: so much of a cycle is none.
inline constexpr double kCycleRounding = 1e-6;

// The whole layer as a convolution; nothing where it is neither convolution nor dense. Not everything that it says can be built.
std::optional<ConvolutionShape> layer_shape(const Graph& graph, const Node& node);

// Whether what it reads is the network's input, flattened or not: no errors go back from there.
bool reads_network_input(const Graph& graph, const Node& node);

// The network's input as streams carry it. Where nobody reads it but flattenings the host sends it flattened, so that a dense layer's
// engine has as many multipliers as its period asks for, rather than one for every pixel at least; but for more elements than channels are
// counted.
Shape streamed_input(const Graph& graph);

// What a shard holds of channels [begin, end) of a map of `channels`; of a dense layer the range counts elements of the flattened map,
// `elements_per_channel` of them each.
ChannelRange whole_lane_groups(const ChannelRange& range, int64_t elements_per_channel, int64_t lanes, int64_t channels);

// A kernel that stands in one place, over the whole map, has a multiplier for every pixel. A map of more than so many, or one that is not
// square, is taken flat instead: beat by beat as it comes, as channels of a single pixel, lanes beyond the last channel among them.
inline constexpr int64_t kMostPixelsAtOnce = 64;
// Channels are counted in sixteen bits, and those of a map that is taken flat in as many as they take, up to so many.
inline constexpr int64_t kMostChannels = (int64_t{1} << 16) - 1;
inline constexpr int64_t kMostFlatChannels = (int64_t{1} << 20) - 1;
bool takes_map_flat(const ConvolutionShape& whole);

// What a shard holds of a layer.
struct HeldChannels {
  ChannelRange inputs, outputs;
};
// What its engine computes, behind streams of so many lanes. Of a whole layer its channel groups stay apart. A part of one computes them as
// one, with kernels of zero between channels that do not mix: errors of all inputs leave it. A kernel that is dilated or not square
// is a larger one with zeros (square_kernel.h).
ConvolutionShape held_shape(const ConvolutionShape& whole, const HeldChannels& held, int64_t lanes);
// Likewise, of a layer whose map is not taken flat.
ConvolutionShape held_windows(const ConvolutionShape& whole, const HeldChannels& held);

// What the maps before and behind the layer's sum take to pass.
int64_t stream_cycles(const ConvolutionShape& whole, int64_t lanes);

// The windows of a layer that pools, over the whole map as one; nothing where it does not.
std::optional<PoolingWindow> pooling_window(const Node& node);

// Whether an operand of a concatenation lies between groups of lanes and is moved there and back, and the cycles that this takes: a beat
// per cycle, a row of them more than it has.
bool lies_between_lanes(const ChannelRange& place, bool is_last, int64_t lanes);
int64_t moving_cycles(int64_t channels, int64_t pixels, int64_t lanes);

// What of a sample takes longest between engines: the largest map that an addition or a concatenation makes, whoever reads it, an
// operand that is moved, or a pooling, there and back.
int64_t joined_and_pooled_cycles(const Graph& graph, int64_t lanes);

// DSP slices behind a sum on the group's last device, which computes the layers `after` it.
int64_t slices_after_sum(int64_t lanes, std::span<const Node* const> after);
// LUTs there of large windows that overlap, which are more than all else behind a sum takes.
double luts_after_sum(int64_t lanes, std::span<const Node* const> after);

}  // namespace millrace
