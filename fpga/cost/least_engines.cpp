// Engines of a shard, or of a larger part of its layer, that no other undercuts: what no cuts can avoid.
#include <algorithm>
#include <array>
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

// Of a board with block RAM alone.
struct GeneratedEngines::LeastBuilt {
  int64_t tiles = 0, bram18 = 0, input_channels = 0;
  double bytes = 0;
  int64_t channels = 0;  // of the part that it is built for
  int64_t cycles = 0;    // that it keeps up with

  // From what is known first to what takes long to count: each no less than the one before.
  LeastBuilt(const EnginesAtPlace& engines, const EngineFront::Choice& choice, int64_t of_channels)
      : tiles(choice.tiles()),
        bram18(engines.least_blocks(choice)),
        input_channels(engines.least_input_channels()),
        bytes(engines.least_bytes()),
        channels(of_channels) {}
  void look_closer(const EnginesAtPlace::One& one, const EngineFront::Choice& choice) {
    bram18 = one.least_blocks();
    input_channels = one.input_channels();
    bytes = one.bytes();
    cycles = std::max(choice.slowest, one.port_cycles());
  }
  void count(const EnginesAtPlace::One& one, const WeightsAt&) { bram18 = one.blocks(); }
  bool undercuts(const LeastBuilt& other) const {
    return tiles <= other.tiles && bram18 <= other.bram18 && input_channels <= other.input_channels && bytes <= other.bytes &&
           channels <= other.channels;
  }
  auto rank() const { return std::tuple(tiles, bram18, input_channels, bytes, channels); }
  EngineMemory memory() const {
    EngineMemory memory;
    memory.bram18 = bram18;
    return memory;
  }
};

struct GeneratedEngines::LeastOfTwoKinds {
  int64_t tiles = 0, input_channels = 0, input_lanes = 0;
  double bytes = 0;
  int64_t channels = 0, cycles = 0;
  std::array<double, kExchangeRates.size() + 1> blocks = {};  // BRAM36s that it takes, at each rate and in bits
  int64_t bram18 = 0;                                         // never of UltraRAM, the Act-RAM's apart
  MemoryBlocks parameters = {}, gradients = {};

  LeastOfTwoKinds(const EnginesAtPlace& engines, const EngineFront::Choice& choice, int64_t of_channels)
      : tiles(choice.tiles()),
        input_channels(engines.least_input_channels()),
        input_lanes(choice.input_lanes),
        bytes(engines.least_bytes()),
        channels(of_channels) {
    const EnginesAtPlace::LeastOfKinds least = engines.least_of_kinds(choice);
    for (size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = least.fixed + least.either * (i < kExchangeRates.size() ? kExchangeRates[i] / kBram36OfUramBits : 1);
  }
  void look_closer(const EnginesAtPlace::One& one, const EngineFront::Choice& choice) {
    input_channels = one.input_channels();
    bytes = one.bytes();
    cycles = std::max(choice.slowest, one.port_cycles());
  }
  void count(const EnginesAtPlace::One& one, const WeightsAt& weights) {
    bram18 = one.blocks_of_one_kind();
    if (!weights.off_chip) {
      parameters = one.parameters();
      gradients = one.gradients();
    }
    blocks.fill(static_cast<double>(bram18) / 2);
    for (size_t rate = 0; rate < kExchangeRates.size(); ++rate)
      blocks[rate] += exchanged_blocks(parameters, kExchangeRates[rate]) + exchanged_blocks(gradients, kExchangeRates[rate]);
    blocks.back() += (fewest_bits(parameters) + fewest_bits(gradients)) / static_cast<double>(kBram36Bits);
  }
  bool undercuts(const LeastOfTwoKinds& other) const {
    if (tiles > other.tiles || input_channels > other.input_channels || input_lanes > other.input_lanes || bytes > other.bytes ||
        channels > other.channels)
      return false;
    for (size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i] > other.blocks[i]) return false;
    return true;
  }
  auto rank() const { return std::tuple(tiles, blocks.back(), input_channels, bytes, channels, input_lanes, bram18); }
  EngineMemory memory() const {
    EngineMemory memory;
    memory.bram18 = bram18;
    memory.parameters = parameters;
    memory.gradients = gradients;
    memory.input_lanes = input_lanes;
    return memory;
  }
};

// `of_more`: those of the places above.
template <typename Least>
GeneratedEngines::LeastAtPlace<Least> GeneratedEngines::least_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                                                 const LeastAtPlace<Least>& of_more, int64_t cycles,
                                                                 Reserves& reserves) const {
  const Layer& layer = *layers_[engine.layer];
  const int64_t all_channels = layer.by_outputs ? layer.whole.outputs : layer.whole.inputs;
  const int64_t channels = std::min(static_cast<int64_t>(place + 1) * reserves.step, all_channels);
  LeastAtPlace<Least> found{.first = 0, .last = cycles, .engines = of_more.engines};
  std::vector<Least>& least = found.engines;
  add_least(EnginesAtPlace(*this, engine, weights, place, reserves), weights, channels, cycles, least);
  std::ranges::sort(least, {}, &Least::rank);
  // For fewer cycles there are fewer engines to undercut those.
  for (const Least& known : least) found.first = std::max(found.first, known.cycles);
  return found;
}

template <typename Least>
void GeneratedEngines::add_least(const EnginesAtPlace& engines, const WeightsAt& weights, int64_t channels, int64_t cycles,
                                 std::vector<Least>& least) {
  const auto is_undercut = [&](const Least& more) {
    return std::ranges::any_of(least, [&](const Least& known) { return known.undercuts(more); });
  };
  for (const EngineFront::Choice& choice : engines.keeping_up(cycles)) {
    Least more(engines, choice, channels);
    if (is_undercut(more)) continue;
    const EnginesAtPlace::One one = engines.at(choice);
    more.look_closer(one, choice);
    if (is_undercut(more) || more.cycles > cycles) continue;
    more.count(one, weights);
    if (is_undercut(more)) continue;
    std::erase_if(least, [&](const Least& known) { return more.undercuts(known); });
    least.push_back(more);
  }
}

template <typename Least>
std::shared_ptr<const GeneratedEngines::LeastAtPlace<Least>> GeneratedEngines::least_from(const GeneratedEngine& engine,
                                                                                          const WeightsAt& weights, size_t steps,
                                                                                          LeastLists<Least>& lists,
                                                                                          Reserves& reserves) const {
  const int64_t cycles = engine.cycles_given;
  const size_t wanted = reserves.places - steps;  // behind that of all channels
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
    std::vector<std::shared_ptr<const LeastAtPlace<Least>>> list;
    if (known > 0) list.assign(lists[of_list].begin(), lists[of_list].begin() + static_cast<std::ptrdiff_t>(known));
    if (lists.size() == kMostLists) lists.pop_back();
    of_list = lists.size();
    lists.push_back(std::move(list));
  }
  std::rotate(lists.begin(), lists.begin() + static_cast<std::ptrdiff_t>(of_list),
              lists.begin() + static_cast<std::ptrdiff_t>(of_list + 1));
  auto& list = lists.front();
  static const LeastAtPlace<Least> none;
  while (list.size() <= wanted) {
    const LeastAtPlace<Least>& of_more = list.empty() ? none : *list.back();
    const size_t place = reserves.places - 1 - list.size();
    const int64_t ahead = std::min(of_more.last, cycles + cycles / kPartAhead);
    LeastAtPlace<Least> least = least_at(engine, weights, place, of_more, ahead, reserves);
    if (!least.is_for(cycles)) least = least_at(engine, weights, place, of_more, cycles, reserves);
    list.push_back(std::make_shared<const LeastAtPlace<Least>>(std::move(least)));
  }
  return list[wanted];
}

template <typename Least>
std::optional<std::vector<EngineMemory>> GeneratedEngines::least_of(const GeneratedEngine& engine, const WeightsAt& weights,
                                                                    LeastLists<Least>& lists, Reserves& reserves) const {
  const Layer& layer = *layers_[engine.layer];
  const size_t steps = steps_held(engine, reserves, false);
  if (steps == 0) return std::nullopt;
  const std::lock_guard lock(reserves.mutex);
  std::shared_ptr<const LeastAtPlace<Least>> at_place = least_from(engine, weights, steps, lists, reserves);
  // Parts of two channel groups differ in more than how many channels they hold.
  if (layer.whole.groups > 1) {
    auto with_own = std::make_shared<LeastAtPlace<Least>>(*at_place);
    add_least(EnginesAtPlace(*this, engine, weights), weights, layer.map_channels(engine.held), engine.cycles_given, with_own->engines);
    std::ranges::sort(with_own->engines, {}, &Least::rank);
    at_place = std::move(with_own);
  }
  // A shard may hold the last of its lanes, or the last of its channels, in part.
  const bool in_part = engine.lanes > 1 || layer.elements_per_channel > 1;
  const auto held = static_cast<double>(layer.map_channels(engine.held));
  std::vector<EngineMemory> found;
  found.reserve(at_place->engines.size());
  for (const Least& least : at_place->engines) {
    EngineMemory& memory = found.emplace_back(least.memory());
    if (!layer.by_outputs) memory.act_ram_times = std::max(1.0, static_cast<double>(least.channels - (in_part ? engine.lanes : 0)) / held);
    memory.input_channels = least.input_channels;
    memory.streamed_bytes = least.bytes;
    if (weights.off_chip) memory.streams.luts = least_packing_luts(least.tiles, engine.held, engine.error_back);
    memory.tiles = least.tiles;
  }
  return found;
}

std::optional<std::vector<EngineMemory>> GeneratedEngines::least_built(const GeneratedEngine& engine, const WeightsAt& weights,
                                                                       bool two_kinds) const {
  Reserves& reserves = reserves_of(engine, weights, true);
  return two_kinds ? least_of(engine, weights, reserves.least_of_two_kinds, reserves)
                   : least_of(engine, weights, reserves.least_built, reserves);
}

}  // namespace millrace
