#include "fpga/recurrence/step_stall.h"

#include <algorithm>

#include "fpga/common/arithmetic/divided_up.h"

namespace millrace {

bool tail_keeps_up(const StepWalk& walk) { return divided_up(walk.units_per_group, walk.tail_units) <= walk.lead + walk.hidden_chunks; }

namespace {

// All features behind the last unit.
int64_t projected_stall(const StepWalk& walk) {
  const int64_t units = walk.hidden - (walk.groups - 1) * walk.units_per_group;
  const int64_t first = (units - 1) / walk.tail_units + walk.latency + walk.projection_latency - walk.lead;
  int64_t longest = first;
  for (int64_t feature = 0, cycle = 0; feature < walk.projection; feature += walk.tail_units, ++cycle)
    longest = std::max(longest, first + cycle - feature / walk.columns);
  return longest;
}

}  // namespace

int64_t step_stall(const StepWalk& walk) {
  if (walk.projection > 0) return std::max<int64_t>(0, projected_stall(walk) - (walk.streams - 1) * walk.issue_cycles());
  const int64_t group_cycles = walk.lead + walk.hidden_chunks;
  int64_t longest = 0;
  for (int64_t group = 0; group < walk.groups; ++group) {
    const int64_t first = group * walk.units_per_group;
    const int64_t units = std::min(walk.units_per_group, walk.hidden - first);
    const int64_t behind = walk.latency - (walk.groups - 1 - group) * group_cycles - walk.lead;
    // The first unit of each cycle of the tail waits longest of its cycle; where the tail is no slower than the columns, the first of all.
    int64_t chunk = first / walk.columns, within = first % walk.columns;
    longest = std::max(longest, behind - chunk);
    if (walk.tail_units >= walk.columns) continue;
    for (int64_t unit = walk.tail_units, cycle = 1; unit < units; unit += walk.tail_units, ++cycle) {
      within += walk.tail_units;
      if (within >= walk.columns) {
        within -= walk.columns;
        ++chunk;
      }
      longest = std::max(longest, cycle + behind - chunk);
    }
  }
  return std::max<int64_t>(0, longest - (walk.streams - 1) * walk.issue_cycles());
}

}  // namespace millrace
