#include "fpga/sbe/event_simulation.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "fpga/recurrence/step_stall.h"

namespace millrace {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int kBatches = 25, kWarmUp = 13;  // twelve batches count, a multiple of every short period

// One thing the bus does: a load into a slot, or the way out of a batch's outputs, which needs none.
struct Transfer {
  int64_t beats = 0;
  bool takes_slot = true;
  int64_t weights = 0;
};

struct Walk {
  int64_t loads = 0;  // which must have arrived, in the bus's order
  int64_t cycles = 0;
  bool ends_batch = false;
};

struct Queues {
  std::deque<Transfer> bus;
  std::deque<Walk> array;
};

void add_batch(const SbeConfig& c, Queues& queues) {
  const auto beats = [&](int64_t words) { return (words + c.words_per_cycle - 1) / c.words_per_cycle; };
  const auto load = [&](int64_t chunks_of_x, int64_t chunks_of_h, int64_t vectors) {
    const int64_t weights = (chunks_of_x + chunks_of_h) * c.columns * c.shape.rows();
    const int64_t x = c.inputs_share_bus ? vectors * std::min(chunks_of_x * c.columns, c.shape.inputs) : 0;
    queues.bus.push_back({beats(weights + x), true, weights});
  };
  const int64_t vectors = c.streams * c.steps, row_groups = (c.shape.rows() + c.row_lanes - 1) / c.row_lanes;
  const int64_t of_x = (c.shape.inputs + c.columns - 1) / c.columns, of_h = (c.shape.features() + c.columns - 1) / c.columns;
  // The blocks' borders: x first, then h.
  struct Cut {
    int64_t x = 0, h = 0;
  };
  std::vector<Cut> cuts;
  const int64_t streamed = c.pinned == Pinned::kAll ? 0 : of_x + (c.pinned == Pinned::kNone ? of_h : 0);
  for (int64_t at = 0; at < streamed;) {
    Cut cut;
    while (at < streamed && cut.x + cut.h < c.block_chunks) ++(at++ < of_x ? cut.x : cut.h);
    cuts.push_back(cut);
  }
  std::vector<Cut> hidden;
  for (const Cut& cut : cuts) {
    if (cut.h > 0) {
      hidden.push_back(cut);
      continue;
    }
    load(cut.x, 0, vectors);
    queues.array.push_back({1, vectors * row_groups * cut.x});
  }
  int64_t lead = c.pinned == Pinned::kAll ? of_x : 0;
  for (const Cut& cut : hidden) lead += cut.x;
  const int64_t stall = step_stall({c.shape.hidden, row_groups, (c.row_lanes + c.shape.gates - 1) / c.shape.gates, c.columns, c.tail_units,
                                    c.latency, lead, of_h, c.streams, c.shape.projection, kProjectionLatency});
  const auto resident = static_cast<int64_t>(hidden.size()) <= std::max<int64_t>(2, c.slots - 1);
  if (resident) {
    if (c.pinned == Pinned::kAll && c.inputs_share_bus) queues.bus.push_back({beats(vectors * c.shape.inputs)});
    for (const Cut& cut : hidden) load(cut.x, cut.h, vectors);
    const int64_t loads = c.pinned == Pinned::kAll ? (c.inputs_share_bus ? 1 : 0) : static_cast<int64_t>(hidden.size());
    queues.array.push_back({loads, c.steps * (c.streams * row_groups * (lead + of_h) + stall)});
  } else {
    for (int64_t step = 0; step < c.steps; ++step)
      for (size_t i = 0; i < hidden.size(); ++i) {
        load(hidden[i].x, hidden[i].h, c.streams);
        queues.array.push_back({1, c.streams * row_groups * (hidden[i].x + hidden[i].h) + (i == 0 ? stall : 0)});
      }
  }
  queues.array.back().ends_batch = true;
  if (c.inputs_share_bus) queues.bus.push_back({beats(vectors * c.shape.features()), false});
}

}  // namespace

SimulatedBatch simulated_batch(const SbeConfig& config) {
  Queues queues;
  for (int batch = 0; batch < kBatches; ++batch) add_batch(config, queues);
  int64_t now = 0, bus_done = kNever, array_done = kNever;
  int64_t free_slots = config.slots, arrived = 0;  // loads that wait for their walk
  int64_t words = 0;
  bool bus_loads = false;
  std::vector<int64_t> ends;
  while (!queues.array.empty()) {
    for (bool something = true; something;) {
      something = false;
      if (bus_done == kNever && !queues.bus.empty() && (!queues.bus.front().takes_slot || free_slots > 0)) {
        bus_loads = queues.bus.front().takes_slot;
        if (bus_loads) --free_slots;
        bus_done = now + queues.bus.front().beats;
        words += queues.bus.front().weights;
        queues.bus.pop_front();
        something = true;
      }
      if (array_done == kNever && arrived >= queues.array.front().loads) {
        arrived -= queues.array.front().loads;
        array_done = now + queues.array.front().cycles;
        something = true;
      }
      if (bus_done == now) {
        arrived += bus_loads ? 1 : 0;
        bus_done = kNever;
        something = true;
      }
      if (array_done == now) {
        free_slots += queues.array.front().loads;
        if (queues.array.front().ends_batch) ends.push_back(now);
        queues.array.pop_front();
        array_done = kNever;
        if (queues.array.empty()) break;
        something = true;
      }
    }
    now = std::min(bus_done, array_done);
  }
  return {static_cast<double>(ends.back() - ends[kWarmUp - 1]) / (kBatches - kWarmUp), words / kBatches};
}

}  // namespace millrace
