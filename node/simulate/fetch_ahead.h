// Internal to node/simulate: asks memory for what a process will look at first, pointer by pointer, while others go on. Rings of thousands
// of devices do not fit the caches, and a process that waited for each of its lines in turn would do little else.
//
//   fetch_station<1>(network, station);  ...  fetch_station<3>(network, station);      // each stage follows what the one before fetched
//   fetch_message<1>(network, flow);     ...  fetch_message<5>(network, flow);
//
// Reads nothing that could not be there yet; changes nothing.
#pragma once

#include "core/base/index.h"
#include "node/simulate/network.h"

namespace millrace::simulation {

// A compiler that does not inline a function which only fetches may find that it has no effect, and leave it out.
#define MILLRACE_FETCHES [[gnu::always_inline]] inline

MILLRACE_FETCHES void fetch_bytes(const void* object, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kCacheLine) __builtin_prefetch(static_cast<const char*>(object) + at);
}

// All of a station but what only samples renew.
constexpr size_t kOftenUsed = 3 * kCacheLine;

// Stages of a station that goes on: itself; what it reads, makes and sends; where that comes from and goes to.
template <size_t kStage>
MILLRACE_FETCHES void fetch_station(const Network& network, const Station& s) {
  const FlowState* flow = s.flow >= 0 ? &network.flow(s.flow) : nullptr;
  const Input* inputs = network.inputs.data() + s.first_input;
  if constexpr (kStage == 1) {
    fetch_bytes(&s, kOftenUsed);
  } else if constexpr (kStage == 2) {
    fetch_bytes(inputs, static_cast<size_t>(s.inputs) * sizeof(Input));
    if (flow != nullptr) fetch_bytes(flow, sizeof(FlowState));
    if (s.out >= 0) __builtin_prefetch(&network.stream(s.out));
    if (s.act_ram >= 0) fetch_bytes(&network.act_ram_of(s), sizeof(ActRam));
  } else if constexpr (kStage == 3) {
    for (int32_t i = 0; i < s.inputs; ++i) __builtin_prefetch(&network.stream(inputs[i].stream));
    if (flow != nullptr) {
      __builtin_prefetch(flow->credits.next());
      if (flow->lane >= 0) __builtin_prefetch(&fast_item(network.lanes, flow->lane));
    }
    if (s.out < 0) return;
    const UnitQueue& out = network.stream(s.out);
    for (int32_t r = 0; r < out.readers; ++r) __builtin_prefetch(&network.station(network.reader_of(out, r).station));
  }
}

// Of a message that comes: its flow; its stream; whoever reads that.
template <size_t kStage>
MILLRACE_FETCHES void fetch_message(const Network& network, const FlowState& state) {
  if constexpr (kStage == 1) {
    fetch_bytes(&state, sizeof(state));
  } else {
    const UnitQueue& queue = network.stream(state.stream);
    if constexpr (kStage == 2) {
      __builtin_prefetch(state.in_flight.next());
      __builtin_prefetch(&queue);
    } else if (queue.readers > 0) {
      const Reader& reader = network.reader_of(queue, 0);
      fetch_station<kStage - 2>(network, network.station(reader.station));
    }
  }
}

}  // namespace millrace::simulation
