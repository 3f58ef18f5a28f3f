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

int64_t Network::chunk_of(const Turns& of) const {
  const Action& action = action_of(of);
  if (action.chunk < 0) return 0;
  return action.kind == ActionKind::kForward ? action.chunk : of.chunks - 1 - action.chunk;
}

bool Network::takes_whole(const Turns& of) const {
  return chunk_of(of) == (action_of(of).kind == ActionKind::kForward ? of.chunks - 1 : 0);
}

const std::vector<int32_t>& Network::inputs_of(const Turns& of) const {
  const TurnWay& way = of.way(action_of(of).kind == ActionKind::kForward);
  if (of.phase > 0) return item(way.rows, (of.phase - 1) % of.rows_of_step);
  return takes_whole(of) ? way.inputs : way.chunk_inputs;
}

}  // namespace millrace::simulation
