// How a plan says which engine of blocked columns a shard has: as amounts among the shard's resources, "weight_stream_" and a name.
//
//   shard.resources = ...;  append(weight_stream_amounts(config), shard.resources);
//   const std::optional<SbeConfig> config = weight_stream_of(shard, node);      // nothing: the shard has another engine
//
// The engine takes a micro-batch's sequences side by side (streams) and their steps `steps` at a time, its state kept between two batches.
// x comes and h goes over streams of their own. Fails with kMalformed, naming the number, on what cannot be built, and on batches whose
// steps do not make up the layer's. A dense layer that takes each step by itself and keeps its weights off chip says only how many steps
// share a pass over them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"
#include "fpga/sbe/engine_config.h"

namespace millrace {

// Of one direction. Fails with kUnavailable, naming the layer, on those that the engine does not compute.
GateMatrix sbe_shape_of(const Node& node);
// Why it does not, and what to do; "" where it does.
std::string sbe_refusal(const Node& node);

// Steps of a sequence that share a pass over the weights; 1 where nothing is said.
inline constexpr std::string_view kStepsOfPass = "weight_stream_steps";
int64_t steps_of_pass(const Shard& shard, const Node& node);

std::vector<NamedAmount> weight_stream_amounts(const SbeConfig& config);
std::optional<SbeConfig> weight_stream_of(const Shard& shard, const Node& node);

}  // namespace millrace
