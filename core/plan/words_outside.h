// What a device moves to and from its own memory within a sample, and engines that wait for it: words off chip (off_chip.h), and samples
// that wait there for their errors where a chip has too little room, which whoever builds the plan finds out.
//
//   add_words_outside(plan, graph, {{.shard = 3, .bytes = 2e6}});       // each a sample, there and back
//   words_outside(plan.shards[3], node, plan.micro_batch);              // with the weights that are streamed
//
// All that a device moves passes its memory one after the other, so each shard that moves some waits for all of it. Full accounting alone
// counts it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/documents/plan.h"
#include "core/graph/graph.h"

namespace millrace {

// Of Shard::resources, bytes a sample there and back: what waits before a layer for its errors, where the plan has it outside; and all that
// waits there when the plan is built, with that.
inline constexpr std::string_view kActRamBytesPerSample = "act_ram_bytes_per_sample";
inline constexpr std::string_view kWaitingBytesPerSample = "waiting_bytes_per_sample";

// Of samples that wait.
struct WaitingWords {
  int64_t shard = 0;
  double bytes = 0;
};

bool keeps_act_ram_outside(const Shard& shard);
double act_ram_bytes(const Shard& shard);  // 0 where it is not there
// Bytes of a sample.
double words_outside(const Shard& shard, const Node& node, int64_t micro_batch);
// Engines of shards that move some take as long as the memory of their device, at so many bytes per second; 0: not known.
void wait_for_words(std::span<Shard> shards, const Graph& graph, int64_t micro_batch,
                    const std::function<double(int64_t device)>& bandwidth);
// Seconds that so many bytes take of a device's memory; 0: not known.
double seconds_outside(const Plan& plan, int64_t device, double bytes);
void add_words_outside(Plan& plan, const Graph& graph, const std::vector<WaitingWords>& waiting);

}  // namespace millrace
