// Engines of a shard, or of a larger part of its layer, that no other undercuts: what no cuts can avoid.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <tuple>
#include <vector>

#include "core/base/index.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/cost/built_blocks.h"
#include "fpga/cost/engines_at_place.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

namespace {

// Lists of engines that are kept, of as many periods: a search and its bound go on at once, and go back to longer ones.
constexpr size_t kMostLists = 4;
// Engines are looked for that keep up with a period longer by so small a part: mostly all of them keep up with the shorter one, too, and
// who asks for one between has them.
constexpr int64_t kPartAhead = 1024;

}  // namespace

// `of_more`: those of the places above.
GeneratedEngines::LeastAtPlace GeneratedEngines::least_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                                          const LeastAtPlace& of_more, int64_t cycles, Reserves& reserves) const {
  const Layer& layer = *layers_[engine.layer];
  const int64_t all_channels = layer.by_outputs ? layer.whole.outputs : layer.whole.inputs;
  const int64_t channels = std::min(static_cast<int64_t>(place + 1) * reserves.step, all_channels);
  LeastAtPlace found{.first = 0, .last = cycles, .engines = of_more.engines};
  std::vector<LeastBuilt>& least = found.engines;
  const EnginesAtPlace engines(*this, engine, weights, place, reserves);
  const auto is_undercut = [&](const LeastBuilt& more) {
    return std::ranges::any_of(least, [&](const LeastBuilt& known) { return known.undercuts(more); });
  };
  for (const EngineFront::Choice& choice : engines.keeping_up(cycles)) {
    LeastBuilt more{choice.tiles(), engines.least_blocks(choice), engines.least_input_channels(), engines.least_bytes(), channels};
    if (is_undercut(more)) continue;
    const EnginesAtPlace::One one = engines.at(choice);
    more = {choice.tiles(), one.least_blocks(), one.input_channels(), one.bytes(), channels, std::max(choice.slowest, one.port_cycles())};
    if (is_undercut(more) || more.cycles > cycles) continue;
    more.bram18 = one.blocks();
    if (is_undercut(more)) continue;
    std::erase_if(least, [&](const LeastBuilt& known) { return more.undercuts(known); });
    least.push_back(more);
  }
  std::ranges::sort(least, {}, [](const LeastBuilt& known) {
    return std::tuple(known.tiles, known.bram18, known.input_channels, known.bytes, known.channels);
  });
  // For fewer cycles there are fewer engines to undercut those.
  for (const LeastBuilt& known : least) found.first = std::max(found.first, known.cycles);
  return found;
}

std::shared_ptr<const GeneratedEngines::LeastAtPlace> GeneratedEngines::least_from(const GeneratedEngine& engine, const WeightsAt& weights,
                                                                                   size_t steps, Reserves& reserves) const {
  const int64_t cycles = engine.cycles_given;
  const size_t wanted = reserves.places - steps;  // behind that of all channels
  auto& lists = reserves.least_built;
  // As far down as is known for the cycles.
  const auto known_of = [&](const auto& list) {
    size_t known = std::min(list.size(), wanted + 1);
    while (known > 0 && !list[known - 1]->is_for(cycles)) --known;
    return known;
  };
  size_t known = 0, of_list = lists.size();
  for (size_t i = 0; i < lists.size() && known <= wanted; ++i)
    if (const size_t of_one = known_of(lists[i]); of_one > known) {
      known = of_one;
      of_list = i;
    }
  if (known <= wanted && (known == 0 || known < lists[of_list].size())) {
    std::vector<std::shared_ptr<const LeastAtPlace>> list;
    if (known > 0) list.assign(lists[of_list].begin(), lists[of_list].begin() + static_cast<std::ptrdiff_t>(known));
    if (lists.size() == kMostLists) lists.pop_back();
    of_list = lists.size();
    lists.push_back(std::move(list));
  }
  std::rotate(lists.begin(), lists.begin() + static_cast<std::ptrdiff_t>(of_list),
              lists.begin() + static_cast<std::ptrdiff_t>(of_list + 1));
  auto& list = lists.front();
  static const LeastAtPlace none;
  while (list.size() <= wanted) {
    const LeastAtPlace& of_more = list.empty() ? none : *list.back();
    const size_t place = reserves.places - 1 - list.size();
    const int64_t ahead = std::min(of_more.last, cycles + cycles / kPartAhead);
    LeastAtPlace least = least_at(engine, weights, place, of_more, ahead, reserves);
    if (!least.is_for(cycles)) least = least_at(engine, weights, place, of_more, cycles, reserves);
    list.push_back(std::make_shared<const LeastAtPlace>(std::move(least)));
  }
  return list[wanted];
}

std::optional<std::vector<EngineMemory>> GeneratedEngines::least_built(const GeneratedEngine& engine, const WeightsAt& weights) const {
  const Layer& layer = *layers_[engine.layer];
  Reserves& reserves = reserves_of(engine, weights, true);
  const size_t steps = steps_held(engine, reserves, false);
  if (steps == 0) return std::nullopt;
  const std::lock_guard lock(reserves.mutex);
  const std::shared_ptr<const LeastAtPlace> at_place = least_from(engine, weights, steps, reserves);
  // A shard may hold the last of its lanes, or the last of its channels, in part.
  const bool in_part = engine.lanes > 1 || layer.elements_per_channel > 1;
  const auto held = static_cast<double>(layer.map_channels(engine.held));
  std::vector<EngineMemory> found;
  found.reserve(at_place->engines.size());
  for (const LeastBuilt& least : at_place->engines) {
    EngineMemory& memory = found.emplace_back();
    if (!layer.by_outputs) memory.act_ram_times = std::max(1.0, static_cast<double>(least.channels - (in_part ? engine.lanes : 0)) / held);
    memory.bram18 = least.bram18;
    memory.input_channels = least.input_channels;
    memory.streamed_bytes = least.bytes;
    if (weights.off_chip) memory.streams.luts = least_packing_luts(least.tiles, engine.held, engine.error_back);
    memory.tiles = least.tiles;
  }
  return found;
}

}  // namespace millrace
