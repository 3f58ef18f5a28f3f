// The cycles of the adapter between streams of unequal width, beside a list of all its groups of channels and what each waits for.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fpga/conv_ce/rtl/cycle_model.h"

namespace millrace {
namespace {

struct AdapterGroup {
  int64_t block, first, last;  // channels
  int64_t cycles;
  int64_t slot, slot_behind;
};

std::vector<AdapterGroup> groups_of(const BeatOrder& order, int64_t lanes, int banks, int64_t samples) {
  const int64_t in_slot = int64_t{1} << banks;
  std::vector<AdapterGroup> groups;
  int64_t block = 0, slot = 0;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t row = 0; row < order.height; ++block) {
      const int64_t rows = std::min(row == 0 ? order.first_block_rows : order.block_rows, order.height - row);
      for (int64_t first = 0; first < order.channels; first += lanes) {
        const int64_t last = std::min(first + lanes, order.channels);
        const int64_t behind = last == order.channels ? slot + (last + in_slot - 1) / in_slot : slot + last / in_slot;
        groups.push_back({block, first, last, rows * order.width, slot + first / in_slot, behind});
      }
      slot = groups.back().slot_behind;
      row += rows;
    }
  return groups;
}

// A group goes out when the one before is out and its channels are in; it comes in when the one before is in and the slot is free that lies
// two before its own: four there are, and a group may reach into the next.
int64_t last_out(const BeatOrder& order, int64_t out_lanes, int banks, int64_t samples) {
  const std::vector<AdapterGroup> in = groups_of(order, order.lanes, banks, samples);
  const std::vector<AdapterGroup> out = groups_of(order, out_lanes, banks, samples);
  std::vector<int64_t> freed{0};
  int64_t written = 0, read = 0;
  size_t next = 0;
  for (const AdapterGroup& group : out) {
    while (next < in.size() && (in[next].block < group.block || (in[next].block == group.block && in[next].first < group.last))) {
      const int64_t wanted = std::max<int64_t>(in[next].slot - 2, 0);
      written = std::max(written, freed.at(static_cast<size_t>(wanted))) + in[next].cycles;
      ++next;
    }
    read = std::max(read, written) + group.cycles;
    while (static_cast<int64_t>(freed.size()) <= group.slot_behind) freed.push_back(read);
  }
  return read;
}

TEST(AdapterCycles, OfManyRowsAreThoseOfAllTheirGroups) {
  std::mt19937 random(7);
  const auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint32_t>(bound)); };
  for (int draw = 0; draw < 2000; ++draw) {
    const int64_t in_lanes = 1 + below(12), out_lanes = 1 + below(12);
    BeatOrder order{.channels = 1 + below(60), .height = 1 + below(40), .width = 1 + below(9), .lanes = in_lanes};
    order.block_rows = 1 + below(3);
    order.first_block_rows = 1 + below(order.block_rows);
    const AdapterMemory memory = adapter_memory(in_lanes, out_lanes, order.width * order.block_rows);
    const int64_t samples = 1 + below(4);
    const int64_t all = last_out(order, out_lanes, memory.banks, samples);
    const int64_t read_cycles = 2;
    ASSERT_EQ(adapter_cycles(order, out_lanes, memory, samples), all + read_cycles)
        << draw << ": " << order.channels << " channels, " << in_lanes << " to " << out_lanes << ", " << order.height << " rows";
    ASSERT_EQ(adapter_cycles_of_next(order, out_lanes, memory, samples), last_out(order, out_lanes, memory.banks, samples + 1) - all);
  }
}

}  // namespace
}  // namespace millrace
