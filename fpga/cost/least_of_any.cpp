// Of each amount the least that any engine of a shard, or of a larger part of its layer, takes: what no cuts can avoid on boards of two
// kinds of blocks, where one engine may take less of one kind, and another of the other; and of two channel groups, of which a part may
// take more than the whole.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

#include "fpga/cost/engines_at_place.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

namespace {

// Of full columns and of the last one alike. Whether it became less.
bool lower(MemoryBlocks& least, const MemoryBlocks& other) {
  const int64_t full18 = std::min(least.bram18 - least.last_bram18, other.bram18 - other.last_bram18);
  const int64_t full_urams = std::min(least.urams - least.last_urams, other.urams - other.last_urams);
  MemoryBlocks both;
  both.last_bram18 = std::min(least.last_bram18, other.last_bram18);
  both.last_urams = std::min(least.last_urams, other.last_urams);
  both.bram18 = full18 + both.last_bram18;
  both.urams = full_urams + both.last_urams;
  const bool is_less = both != least;
  least = both;
  return is_less;
}

bool lower(int64_t& least, int64_t other) {
  if (other >= least) return false;
  least = other;
  return true;
}

bool lower(EngineMemory& least, const EngineMemory& other) {
  bool is_less = lower(least.bram18, other.bram18);
  is_less |= lower(least.input_channels, other.input_channels);
  is_less |= lower(least.input_lanes, other.input_lanes);
  is_less |= lower(least.port_cycles, other.port_cycles);
  is_less |= lower(least.parameters, other.parameters);
  is_less |= lower(least.gradients, other.gradients);
  return is_less;
}

void lower(std::optional<EngineMemory>& least, const std::optional<EngineMemory>& other) {
  if (!other) return;
  if (least)
    lower(*least, *other);
  else
    least = other;
}

}  // namespace

GeneratedEngines::LeastOfAny GeneratedEngines::least_of_those(const EnginesAtPlace& engines, const WeightsAt& weights, int64_t cycles) {
  LeastOfAny least{.from = 0, .until = engines.next_slowest(cycles), .memory = {}};
  for (const EngineFront::Choice& choice : engines.keeping_up(cycles)) {
    const EnginesAtPlace::One one = engines.at(choice);
    EngineMemory memory;
    memory.bram18 = one.blocks_of_one_kind();
    memory.input_channels = one.input_channels();
    memory.input_lanes = choice.input_lanes;
    if (weights.off_chip) {
      memory.port_cycles = one.port_cycles();
      if (memory.port_cycles > cycles) {
        least.until = std::min(least.until, memory.port_cycles);
        continue;
      }
    } else {
      memory.parameters = one.parameters();
      memory.gradients = one.gradients();
    }
    if (least.memory && !lower(*least.memory, memory)) continue;
    if (!least.memory) least.memory = memory;
    least.from = std::max({least.from, choice.slowest, memory.port_cycles});
  }
  return least;
}

const std::optional<EngineMemory>& GeneratedEngines::least_of_any_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                                                     Reserves& reserves) const {
  LeastOfAny& known = reserves.least_of_any[place];
  const int64_t cycles = engine.cycles_given;
  if (cycles < known.from || cycles >= known.until)
    known = least_of_those(EnginesAtPlace(*this, engine, weights, place, reserves), weights, cycles);
  return known.memory;
}

EngineMemory GeneratedEngines::least_of_any(const GeneratedEngine& engine, const WeightsAt& weights) const {
  Reserves& reserves = reserves_of(engine, weights, /*small_steps=*/true);
  const size_t steps = steps_held(engine, reserves, /*up=*/false);
  if (steps == 0) return {};
  const std::lock_guard lock(reserves.mutex);
  std::vector<std::optional<EngineMemory>>& of_more = reserves.least_of_cycles.ask(engine.cycles_given).of_more;
  const size_t wanted = reserves.places - steps;
  while (of_more.size() <= wanted) {
    std::optional<EngineMemory> least = least_of_any_at(engine, weights, reserves.places - 1 - of_more.size(), reserves);
    if (!of_more.empty()) lower(least, of_more.back());
    of_more.push_back(least);
  }
  std::optional<EngineMemory> least = of_more[wanted];
  // Parts of two channel groups differ in more than how many channels they hold.
  if (layers_[engine.layer]->whole.groups > 1)
    lower(least, least_of_those(EnginesAtPlace(*this, engine, weights), weights, engine.cycles_given).memory);
  if (least) return *least;
  EngineMemory none;  // that could stream its words in time
  if (weights.off_chip) none.port_cycles = std::numeric_limits<int64_t>::max();
  return none;
}

}  // namespace millrace
