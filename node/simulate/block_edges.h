// Internal to node/simulate: what a block of devices knows of the time to come at its two ends.
//
//   BlockEdges edges(network, plan, timeline);
//   edges.quiet_until(/*left=*/true, outlook);         // nothing of a kind is sent over that end before then, whatever arrives
//
// A unit in work ends first, a row that is needed is made first, a message on its way arrives first: so a block certainly sends nothing
// for a while. Borrows all it is given.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/index.h"
#include "node/simulate/network.h"
#include "node/simulate/timeline.h"

namespace millrace::simulation {

// What crosses comes in two kinds, and a time for each: messages' first.
enum class Crosses : uint8_t { kMessage, kCredit };
using CrossingTimes = std::array<int64_t, 2>;
inline int64_t time_of(const CrossingTimes& times, Crosses what) { return item(times, what); }

// What a block knows of the time to come: nothing in it happens before `next`, nothing arrives from a side before that side's.
struct Outlook {
  int64_t next = 0;
  CrossingTimes left{}, right{};
  int64_t from(bool left_side, Crosses what) const { return time_of(left_side ? left : right, what); }
};

class BlockEdges {
 public:
  BlockEdges(const Network& network, const Plan& plan, const Timeline& timeline);

  CrossingTimes quiet_until(bool left, const Outlook& outlook) const;
  // Flows with one end in the block, at this end of it.
  const std::vector<int32_t>& flows_at(bool left) const { return left ? left_ : right_; }
  // Messages of a flow that one step of the clock sends at most; 0: unknown.
  int64_t most_sent(int32_t flow) const { return item(most_sent_, flow); }

 private:
  int64_t most_sent_at_once(const Station& s) const;
  bool is_left(const FlowState& state) const { return item(plan_.flows, state.plan_flow).link == network_.first_device - 1; }
  int64_t next_start(int32_t station, const Outlook& outlook, int depth) const;
  int64_t units_missing(const Station& s) const;
  int64_t next_room(const Station& s, const Outlook& outlook, int depth) const;
  int64_t next_arrival(const FlowState& flow, int64_t missing, const Outlook& outlook, int depth) const;

  const Network& network_;
  const Plan& plan_;
  const Timeline& timeline_;
  std::vector<int32_t> left_, right_;
  std::vector<int64_t> most_sent_;
};

}  // namespace millrace::simulation
