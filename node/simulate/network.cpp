#include "node/simulate/network.h"

#include <algorithm>

namespace millrace::simulation {

bool Network::act_ram_is_full(const Station& s) const {
  if (s.act_ram < 0 || s.kind != StationKind::kForward || s.cycle == s.cycles) return false;
  return act_rows_needed(s) - act_ram_of(s).released > act_ram_of(s).capacity_rows;
}

int64_t Network::allowed(const UnitQueue& queue) const {
  int64_t limit = kNoLimit;
  for (int32_t r = 0; r < queue.readers; ++r) {
    const Input& read = input(reader_of(queue, r).input);
    limit = std::min(limit, read.need + read.slack);
  }
  return limit;
}

int32_t Network::slowest_reader(const UnitQueue& queue) const {
  int32_t slowest = -1;
  int64_t least = kNoLimit;
  for (int32_t r = 0; r < queue.readers; ++r) {
    const Reader& reader = reader_of(queue, r);
    const Input& read = input(reader.input);
    if (read.need + read.slack >= least) continue;
    least = read.need + read.slack;
    slowest = reader.station;
  }
  return slowest;
}

const std::vector<int32_t>& Network::inputs_of(const Turns& of) const {
  const bool forward = action_of(of).kind == ActionKind::kForward;
  if (of.phase > 0) return forward ? of.forward_rows : of.error_rows;
  return forward ? of.forward_inputs : of.error_inputs;
}

}  // namespace millrace::simulation
