// What engines take of a board's memory, and of the memory outside: as they are built, and as a search reserves it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>

#include "core/base/check.h"
#include "core/base/index.h"
#include "fpga/conv_ce/rtl/built_memory.h"
#include "fpga/conv_ce/rtl/memory_layout.h"
#include "fpga/conv_ce/rtl/weight_streams.h"
#include "fpga/cost/built_blocks.h"
#include "fpga/cost/engines_at_place.h"
#include "fpga/cost/generated_engines.h"

namespace millrace {

namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
constexpr size_t kNoSize = std::numeric_limits<size_t>::max();
// Engines that are looked at before all are.
constexpr int kMostLooks = 24;
// Numbers of channels, of a layer, whose memory is looked at; and in small steps.
constexpr int64_t kReservedSteps = 96, kSmallSteps = 512;

// Its full columns and its last one take no less than the other's.
bool covers(const MemoryBlocks& one, const MemoryBlocks& other) {
  return one.bram18 - one.last_bram18 >= other.bram18 - other.last_bram18 && one.last_bram18 >= other.last_bram18 &&
         one.urams - one.last_urams >= other.urams - other.last_urams && one.last_urams >= other.last_urams;
}

// However it is cut, it takes no less than either.
MemoryBlocks larger(const MemoryBlocks& one, const MemoryBlocks& other) {
  if (covers(one, other)) return one;
  if (covers(other, one)) return other;
  MemoryBlocks both;
  both.bram18 = std::max(one.bram18, other.bram18);
  both.urams = std::max(one.urams, other.urams);
  return both;
}

int64_t samples_side_by_side(const WeightsAt& weights) { return weights.off_chip ? weights.held_samples : 1; }

// Wherever its weights lie.
int64_t blocks_anywhere(const EngineParallelism& engine, const ConvolutionShape& held, const EngineSurroundings& around) {
  return engine_blocks(engine, held, around) + adapter_blocks(engine, held, around);
}

// With all blocks that are not of UltraRAM; of streamed weights also their reader's, writer's and samples'.
int64_t blocks_of_weights(const EngineParallelism& engine, const ConvolutionShape& held, const EngineSurroundings& around,
                          const WeightsAt& weights) {
  if (weights.off_chip) return stream_blocks(engine, held, around, kMostBeatBits);
  return bram18_of(parameter_memory(engine, held, around.error_back)) + bram18_of(gradient_memory(engine, held));
}

// Of the slowest port to the memory outside.
int64_t slowest_port(const EngineParallelism& engine, const ConvolutionShape& held, const WeightsAt& weights, bool error_back) {
  const WeightStreams streams{.samples = 1, .gradient_samples = weights.gradient_samples, .beat_bits = kMostBeatBits};
  const StreamCycles ports = weight_stream_cycles(streams, engine, held);
  return std::max({ports.forward, error_back ? ports.error_back : 0, ports.gradient});
}

// `blocks`: those of blocks_anywhere; with ports as narrow as so many cycles a sample let them be, or, at 0, the widest.
EngineMemory engine_memory(const EngineParallelism& engine, const ConvolutionShape& held, const EngineSurroundings& around,
                           const WeightsAt& weights, int64_t blocks, int64_t cycles) {
  EngineMemory memory;
  memory.bram18 = blocks;
  memory.input_channels = engine.groups_of_inputs(held.inputs) * engine.input_lanes;
  memory.input_lanes = engine.input_lanes;
  memory.tiles = engine.tiles();
  if (weights.off_chip) {
    memory.bram18 += blocks_of_weights(engine, held, around, weights);
    memory.port_cycles = slowest_port(engine, held, weights, around.error_back);
    const WeightStreams streams{.samples = 1, .gradient_samples = weights.gradient_samples, .beat_bits = kMostBeatBits};
    memory.streamed_bytes = bytes_per_sample(streams, engine, held, around.error_back);
    const int64_t beat_bits = weight_streams(engine, held, 1, weights.gradient_samples, cycles).beat_bits;
    memory.streams = stream_fabric(engine, held, around, beat_bits);
    return memory;
  }
  memory.parameters = MemoryBlocks(parameter_memory(engine, held, around.error_back));
  memory.gradients = MemoryBlocks(gradient_memory(engine, held));
  return memory;
}

// Between the numbers of channels that are looked at, words may be filled less well.
EngineMemory with_margin(EngineMemory memory) {
  const auto more = [](int64_t& blocks) { blocks += divided_up(blocks, 64); };
  more(memory.bram18);
  more(memory.input_channels);
  more(memory.parameters.bram18);
  more(memory.parameters.urams);
  more(memory.gradients.bram18);
  more(memory.gradients.urams);
  more(memory.port_cycles);
  memory.streamed_bytes += memory.streamed_bytes / 64;
  return memory;
}

// Sizes of larger engines that are looked at, in tiles: five significant bits.
int64_t size_from(int64_t tiles) {
  int64_t step = 1;
  while (tiles > 32 * step) step *= 2;
  return divided_up(tiles, step) * step;
}

const std::vector<int64_t>& engine_sizes() {
  static const std::vector<int64_t> sizes = [] {
    std::vector<int64_t> all;
    for (int64_t tiles = 1; tiles <= kMostEngineLanes * kMostEngineLanes; tiles = size_from(tiles + 1)) all.push_back(tiles);
    return all;
  }();
  return sizes;
}

size_t place_of_size(int64_t tiles) {
  static const std::vector<int16_t> places = [] {
    std::vector<int16_t> all;
    for (int64_t at = 0, place = 0; at <= engine_sizes().back(); ++at) {
      if (at > engine_sizes()[to_size(place)]) ++place;
      all.push_back(static_cast<int16_t>(place));
    }
    return all;
  }();
  return to_size(fast_item(places, tiles));
}

// The most input channels that a larger engine's lanes may make of those held: so the Act-RAM does not depend on the engine.
int64_t most_input_channels(int64_t held) { return held + held / 16; }

// Of block RAM alone: all that depends on the engine, with columns for the width of the Act-RAM.
int64_t blocks_of_engine(const EngineMemory& memory, const WeightsAt& weights) {
  return memory.bram18 + memory.parameters.bram18 + memory.gradients.bram18 + act_ram_columns(memory.input_lanes, weights);
}

}  // namespace

EngineMemory larger_of(EngineMemory one, const EngineMemory& other) {
  one.bram18 = std::max(one.bram18, other.bram18);
  one.input_channels = std::max(one.input_channels, other.input_channels);
  one.input_lanes = std::max(one.input_lanes, other.input_lanes);
  one.parameters = larger(one.parameters, other.parameters);
  one.gradients = larger(one.gradients, other.gradients);
  one.port_cycles = std::max(one.port_cycles, other.port_cycles);
  one.streamed_bytes = std::max(one.streamed_bytes, other.streamed_bytes);
  one.streams = {std::max(one.streams.luts, other.streams.luts), std::max(one.streams.flip_flops, other.streams.flip_flops)};
  one.tiles = std::max(one.tiles, other.tiles);
  return one;
}

MemoryBlocks::MemoryBlocks(const MemoryShape& memory) : bram18(bram18_of(memory)), urams(bram18 == 0 ? 0 : uram_blocks(memory)) {
  if (urams == 0 || memory.width % kUramWidth == 0) return;
  MemoryShape last = memory;
  last.width %= kUramWidth;
  last_bram18 = bram18_of(last);
  last_urams = uram_blocks(last);
}

EngineMemory GeneratedEngines::memory_of(const GeneratedEngine& engine, const WeightsAt& weights) const {
  const EngineSurroundings around{.error_back = engine.error_back,
                                  .lanes = engine.lanes,
                                  .error_block_rows = layers_[engine.layer]->error_block_rows,
                                  .gradient_samples = samples_side_by_side(weights)};
  return engine_memory(engine.engine, engine.held, around, weights, blocks_anywhere(engine.engine, engine.held, around),
                       engine.cycles_given);
}

GeneratedEngines::Reserves& GeneratedEngines::reserves_of(const GeneratedEngine& engine, const WeightsAt& weights, bool small_steps) const {
  const Layer& layer = *layers_[engine.layer];
  const std::lock_guard lock(mutex_);
  const auto [found, added] = reserves_.try_emplace({layer.alike, engine.width, weights, small_steps});
  Reserves& reserves = found->second;
  if (!added) return reserves;
  const int64_t channels = layer.by_outputs ? layer.whole.outputs : layer.whole.inputs;
  reserves.step = engine.lanes * divided_up(divided_up(channels, engine.lanes), small_steps ? kSmallSteps : kReservedSteps);
  reserves.places = to_size(divided_up(channels, reserves.step));
  std::shared_ptr<EngineBlocks>& blocks = blocks_[{layer.alike, engine.width, samples_side_by_side(weights), small_steps}];
  if (!blocks) {
    blocks = std::make_shared<EngineBlocks>(layer.by_outputs ? 1 : reserves.places, layer.by_outputs ? reserves.places : 1);
  }
  reserves.blocks = blocks;
  if (small_steps) {
    reserves.least_of_any.resize(reserves.places);
    return reserves;
  }
  for (auto& at_places : reserves.at_places) at_places.resize(reserves.places);
  WeightsAt wherever = weights;
  wherever.act_ram_outside = false;
  std::shared_ptr<Smallest>& smallest = smallest_[{layer.alike, engine.width, wherever}];
  if (!smallest) smallest = std::make_shared<Smallest>(reserves.places);
  reserves.smallest = smallest;
  return reserves;
}

size_t GeneratedEngines::steps_held(const GeneratedEngine& engine, const Reserves& reserves, bool up) const {
  const Layer& layer = *layers_[engine.layer];
  const int64_t channels = layer.by_outputs ? engine.held.outputs : layer.map_channels(engine.held);
  return to_size(up || engine.held == whole_shape(layer, engine.lanes) ? divided_up(channels, reserves.step) : channels / reserves.step);
}

EngineMemory GeneratedEngines::reserved_for_period(const GeneratedEngine& engine, const WeightsAt& weights, bool least) const {
  const Layer& layer = *layers_[engine.layer];
  Reserves& reserves = reserves_of(engine, weights);
  const size_t steps = steps_held(engine, reserves, !least);
  if (steps == 0) return EngineMemory{};
  const size_t place = steps - 1;
  const std::lock_guard lock(reserves.smallest->mutex);
  SmallestOfCycles& of_cycles = reserves.smallest->of_cycles.ask(engine.cycles_given);
  of_cycles.of_channels.reserve(reserves.places);
  while (of_cycles.of_channels.size() <= place) {
    EngineMemory memory = memory_of_smallest(layer, engine, weights, of_cycles.of_channels.size(), reserves);
    if (!of_cycles.of_channels.empty()) memory = larger_of(memory, of_cycles.of_channels.back());
    of_cycles.of_channels.push_back(memory);
  }
  return least || reserves.step == engine.lanes ? of_cycles.of_channels[place] : with_margin(of_cycles.of_channels[place]);
}

// Of any engine, fast enough or not, that holds more channels than whole steps of them: the part that it holds of the fewest at the next
// step. No more than `known`, if that is as much.
int64_t GeneratedEngines::fewest_blocks_of(const GeneratedEngine& engine, const WeightsAt& weights, int64_t known,
                                           Reserves& reserves) const {
  const Layer& layer = *layers_[engine.layer];
  const size_t steps = steps_held(engine, reserves, true);
  if (steps == steps_held(engine, reserves, false)) return known;
  const int64_t channels = layer.by_outputs ? engine.held.outputs : layer.map_channels(engine.held);
  const int64_t all = layer.by_outputs ? layer.whole.outputs : layer.whole.inputs;
  const int64_t upper = std::min(static_cast<int64_t>(steps) * reserves.step, all);
  const size_t place = steps - 1;
  // Mostly the smallest that keeps up, if any does, shows that there are few enough.
  const auto smallest_blocks = [&] {
    const std::lock_guard lock(reserves.smallest->mutex);
    const EngineMemory& smallest = memory_of_smallest(layer, engine, weights, place, reserves);
    return smallest.tiles > 0 ? blocks_of_engine(smallest, weights) : kNone;
  }();
  if (smallest_blocks != kNone && smallest_blocks * std::min(channels, upper) / upper <= known) return known;
  int64_t fewest = kNone;
  const EnginesAtPlace engines(*this, engine, weights, place, reserves);
  for (const EngineFront::Choice& choice : engines.keeping_up(kNone)) {
    if (engines.least_blocks(choice) < fewest) fewest = std::min(fewest, engines.at(choice).blocks());
  }
  return std::max(known, fewest * std::min(channels, upper) / upper);
}

EngineMemory GeneratedEngines::least_for_period(const GeneratedEngine& engine, const WeightsAt& weights) const {
  if (layers_[engine.layer]->whole.groups > 1) return least_of_any(engine, weights);
  EngineMemory memory = reserved_for_period(engine, weights, true);
  Reserves& reserves = reserves_of(engine, weights);
  const std::lock_guard lock(reserves.mutex);
  const int64_t known = blocks_of_engine(memory, weights);
  memory.bram18 += fewest_blocks_of(engine, weights, known, reserves) - known;
  return memory;
}

const EngineMemory& GeneratedEngines::memory_of_smallest(const Layer& layer, const GeneratedEngine& engine, const WeightsAt& weights,
                                                         size_t place, Reserves& reserves) const {
  const int64_t cycles = engine.cycles_given;
  SmallestAtPlace& at_place = reserves.smallest->at_places[place];
  if (cycles >= at_place.from && cycles < at_place.until) return at_place.memory;
  const ConvolutionShape shape = shape_at(layer, engine, place, reserves.step);
  Fronts& fronts = fronts_of(layer, engine.width, shape);
  const std::lock_guard blocks_lock(reserves.blocks->mutex);
  const std::lock_guard lock(fronts.mutex);
  EngineFront& front = front_of(fronts, layer, engine.width, shape);
  const EngineFront::Choice* const found = front.smallest(cycles);
  const auto is_found = to_size((found == nullptr ? front.found().data() + front.found().size() : found) - front.found().data());
  at_place.from = found == nullptr ? 0 : found->slowest;
  at_place.until = is_found == 0 ? kNone : front.found()[is_found - 1].slowest;
  if (is_found == at_place.engine) return at_place.memory;
  if (at_place.engine != kNoSize) at_place.others.emplace_back(at_place.engine, at_place.memory);
  at_place.engine = is_found;
  at_place.memory = {};
  if (found == nullptr) return at_place.memory;  // of more channels than are held, for which no engine is fast enough
  const auto known = std::ranges::find(at_place.others, is_found, &std::pair<size_t, EngineMemory>::first);
  if (known != at_place.others.end()) {
    at_place.memory = known->second;
    *known = at_place.others.back();
    at_place.others.pop_back();
    return at_place.memory;
  }
  const EngineParallelism smallest = front.engine(*found);
  const EngineSurroundings around = surroundings_of(layer, engine, weights);
  at_place.memory =
      engine_memory(smallest, shape, around, weights, blocks_at(layer, smallest, shape, around, place, *reserves.blocks), /*cycles=*/0);
  return at_place.memory;
}

std::vector<int32_t>& GeneratedEngines::of_lanes_at(std::vector<std::vector<int32_t>>& places, size_t place) {
  std::vector<int32_t>& of_lanes = places[place];
  if (of_lanes.empty()) of_lanes.assign(to_size(kMostEngineLanes) + 1, -1);
  return of_lanes;
}

// As blocks_anywhere(), where nobody else asks; counted once for each number of lanes.
int64_t GeneratedEngines::blocks_at(const Layer& layer, const EngineParallelism& engine, const ConvolutionShape& shape,
                                    const EngineSurroundings& around, size_t place, EngineBlocks& known) {
  int32_t& of_inputs = fast_item(of_lanes_at(known.of_inputs, layer.by_outputs ? 0 : place), engine.input_lanes);
  if (of_inputs < 0) of_inputs = static_cast<int32_t>(blocks_of_input_lanes(engine, shape, around));
  int32_t& of_outputs = fast_item(of_lanes_at(known.of_outputs, layer.by_outputs ? place : 0), engine.output_lanes);
  if (of_outputs < 0) of_outputs = static_cast<int32_t>(blocks_of_output_lanes(engine, shape, around));
  return int64_t{of_inputs} + of_outputs;
}

EngineSurroundings GeneratedEngines::surroundings_of(const Layer& layer, const GeneratedEngine& engine, const WeightsAt& weights) {
  return {.error_back = layer.error_back,
          .lanes = engine.lanes,
          .error_block_rows = layer.error_block_rows,
          .gradient_samples = samples_side_by_side(weights)};
}

ConvolutionShape GeneratedEngines::shape_at(const Layer& layer, const GeneratedEngine& engine, size_t place, int64_t step) const {
  const int64_t channels = layer.by_outputs ? layer.whole.outputs : layer.whole.inputs;
  const ChannelRange range{0, std::min(static_cast<int64_t>(place + 1) * step, channels)};
  return shape_held(
      layer,
      {layer.by_outputs ? ChannelRange{0, layer.whole.inputs} : range, layer.by_outputs ? range : ChannelRange{0, layer.whole.outputs}},
      engine.lanes);
}

// The fewest at one place, by sizes. Of as many blocks the smaller engine's.
const GeneratedEngines::FewestOfSizes& GeneratedEngines::fewest_at(const GeneratedEngine& engine, const WeightsAt& weights, size_t place,
                                                                   bool least, Reserves& reserves) const {
  FewestAtPlace& known = reserves.at_places[least ? 1 : 0][place];
  const int64_t cycles = engine.cycles_given;
  if (cycles >= known.from && cycles < known.until) return known.of_sizes;
  const EnginesAtPlace engines(*this, engine, weights, place, reserves);
  known.from = 0;
  known.until = engines.next_slowest(cycles);
  known.of_sizes.clear();
  const int64_t most_channels = most_input_channels(engines.shape().inputs);
  int64_t fewest = kNone;
  // What takes no fewer than a smaller one is not among them for any cycles for which the smaller one is.
  for (const EngineFront::Choice& choice : engines.keeping_up(cycles)) {
    if (engines.least_blocks(choice) >= fewest) continue;
    const EnginesAtPlace::One one = engines.at(choice);
    if (one.least_blocks() >= fewest || (!least && one.input_channels() > most_channels)) continue;
    const int64_t port_cycles = one.port_cycles();
    if (port_cycles > cycles) {
      known.until = std::min(known.until, port_cycles);
      continue;
    }
    const int64_t bram18 = one.blocks();
    if (bram18 >= fewest) continue;
    fewest = bram18;
    known.from = std::max({known.from, choice.slowest, port_cycles});
    const size_t size = place_of_size(choice.tiles());
    if (known.of_sizes.empty() || known.of_sizes.back().size != size) known.of_sizes.push_back({});
    known.of_sizes.back() = {size, bram18, port_cycles};
  }
  return known.of_sizes;
}

// Of each size the more blocks, and the more cycles.
GeneratedEngines::FewestOfSizes GeneratedEngines::larger_of_sizes(const FewestOfSizes& one, const FewestOfSizes& other) {
  FewestOfSizes larger;
  larger.reserve(one.size() + other.size());
  for (size_t i = 0, j = 0; i < one.size() || j < other.size();) {
    const size_t size = std::min(i < one.size() ? one[i].size : kNoSize, j < other.size() ? other[j].size : kNoSize);
    if (i < one.size() && one[i].size == size) ++i;
    if (j < other.size() && other[j].size == size) ++j;
    if (i == 0 || j == 0) continue;
    const int64_t bram18 = std::max(one[i - 1].bram18, other[j - 1].bram18);
    const int64_t port_cycles = std::max(one[i - 1].port_cycles, other[j - 1].port_cycles);
    if (larger.empty() || larger.back().bram18 != bram18 || larger.back().port_cycles != port_cycles)
      larger.push_back({size, bram18, port_cycles});
  }
  return larger;
}

double GeneratedEngines::fewest_bytes(const GeneratedEngine& engine, const WeightsAt& weights) const {
  const Layer& layer = *layers_[engine.layer];
  if (layer.whole.groups > 1) return 0;
  const WeightStreams streams{.samples = 1, .gradient_samples = weights.gradient_samples, .beat_bits = kMostBeatBits};
  Fronts& fronts = fronts_of(layer, engine.width, engine.held);
  const std::lock_guard lock(fronts.mutex);
  EngineFront& front = front_of(fronts, layer, engine.width, engine.held);
  double fewest = bytes_per_sample(streams, engine.engine, engine.held, engine.error_back);
  for (const EngineFront::Choice& choice : std::views::reverse(front.choices())) {
    if (choice.slowest > engine.cycles_given) break;
    fewest = std::min(fewest, bytes_per_sample(streams, front.engine(choice), engine.held, engine.error_back));
  }
  return fewest;
}

double GeneratedEngines::reserved_bytes(const GeneratedEngine& engine, const WeightsAt& weights, bool above) const {
  const Layer& layer = *layers_[engine.layer];
  if (layer.whole.groups > 1) return 0;
  Reserves& reserves = reserves_of(engine, weights);
  const size_t steps = steps_held(engine, reserves, above);
  if (steps == 0) return 0;
  const WeightStreams streams{.samples = 1, .gradient_samples = weights.gradient_samples, .beat_bits = kMostBeatBits};
  Smallest& smallest = *reserves.smallest;
  const std::lock_guard lock(smallest.mutex);
  SmallestOfCycles& of_cycles = smallest.of_cycles.ask(engine.cycles_given);
  while (of_cycles.bytes.size() < steps) {
    const size_t place = of_cycles.bytes.size();
    const ConvolutionShape shape = shape_at(layer, engine, place, reserves.step);
    Fronts& fronts = fronts_of(layer, engine.width, shape);
    const std::lock_guard front_lock(fronts.mutex);
    EngineFront& front = front_of(fronts, layer, engine.width, shape);
    const int64_t elements = fewest_elements(front, shape, of_cycles.cycles, smallest.fewest_elements[place]);
    const double fewest = elements > 0 ? bytes_per_sample(streams, elements, shape, layer.error_back) : 0;
    of_cycles.bytes.push_back(of_cycles.bytes.empty() ? fewest : std::max(fewest, of_cycles.bytes.back()));
  }
  return of_cycles.bytes[steps - 1];
}

int64_t GeneratedEngines::fewest_elements(EngineFront& front, const ConvolutionShape& shape, int64_t cycles, FewestElements& known) {
  const int64_t least = shape.inputs * shape.outputs * shape.kernel_h * shape.kernel_w;
  if (cycles >= known.none_empty_from) return least;
  // Mostly one of the smallest has no empty lane; all of them take long to find.
  const EngineFront::Choice* next = front.smallest(cycles);
  if (next == nullptr) return 0;
  for (int look = 0; look < kMostLooks && next != nullptr && known.of_fastest.empty(); ++look, next = front.after(*next))
    if (static_cast<int64_t>(parameter_elements(front.engine(*next), shape)) == least) {
      known.none_empty_from = next->slowest;
      return least;
    }
  const std::span<const EngineFront::Choice> choices = front.choices();
  const auto too_slow = [=](const EngineFront::Choice& choice) { return choice.slowest > cycles; };
  const auto fast = to_size(choices.end() - std::ranges::partition_point(choices, too_slow));
  std::vector<int64_t>& fewest = known.of_fastest;
  fewest.reserve(fast);
  while (fewest.size() < fast) {
    const EngineFront::Choice& choice = choices[choices.size() - 1 - fewest.size()];
    const auto elements = static_cast<int64_t>(parameter_elements(front.engine(choice), shape));
    fewest.push_back(fewest.empty() ? elements : std::min(elements, fewest.back()));
  }
  return fewest[fast - 1];
}

std::vector<EngineMemory> GeneratedEngines::larger_engines(const GeneratedEngine& engine, const WeightsAt& weights, bool least) const {
  const Layer& layer = *layers_[engine.layer];
  if (layer.whole.groups > 1) return {};
  Reserves& reserves = reserves_of(engine, weights);
  const size_t steps = steps_held(engine, reserves, !least);
  if (steps == 0) return {};
  const size_t place = steps - 1;
  const std::lock_guard lock(reserves.mutex);
  std::vector<FewestOfSizes>& of_sizes = reserves.of_cycles.ask(engine.cycles_given).of_sizes[least ? 1 : 0];
  of_sizes.reserve(place + 1);
  while (of_sizes.size() <= place) {
    const FewestOfSizes& fewest = fewest_at(engine, weights, of_sizes.size(), least, reserves);
    of_sizes.push_back(of_sizes.empty() ? fewest : larger_of_sizes(fewest, of_sizes.back()));
  }
  std::vector<EngineMemory> found;
  if (of_sizes[place].empty()) return found;
  found.reserve(of_sizes[place].size());
  const int64_t fewest_blocks = least ? fewest_blocks_of(engine, weights, of_sizes[place].back().bram18, reserves) : 0;
  int64_t fewest = kNone;
  for (const FewestBlocks& blocks : of_sizes[place]) {
    if (blocks.bram18 >= fewest) continue;
    fewest = blocks.bram18;
    EngineMemory memory;
    memory.bram18 = blocks.bram18;
    memory.port_cycles = least ? 0 : blocks.port_cycles;
    memory.input_channels = least ? engine.held.inputs : most_input_channels(shape_at(layer, engine, place, reserves.step).inputs);
    memory.tiles = least && blocks.size > 0 ? engine_sizes()[blocks.size - 1] + 1 : engine_sizes()[blocks.size];
    // Never fewer than the smallest has.
    if (least) {
      memory.tiles = std::max(memory.tiles, engine.engine.tiles());
      memory.bram18 = std::max(memory.bram18, fewest_blocks);
    }
    if (!least && reserves.step != engine.lanes) memory = with_margin(memory);
    found.push_back(memory);
  }
  return found;
}

std::vector<EngineMemory> GeneratedEngines::larger_built(const GeneratedEngine& smallest, const WeightsAt& weights, int64_t most_tiles,
                                                         bool two_kinds) const {
  const EnginesAtPlace engines(*this, smallest, weights);
  const EngineSurroundings around = surroundings_of(*layers_[smallest.layer], smallest, weights);
  struct Taken {
    int64_t blocks, input_lanes, input_channels;
    double bytes;
    MemoryBlocks parameters, gradients;  // of boards of two kinds, whose other blocks are of one
  };
  std::vector<Taken> smaller;
  // As many more bits for wider words of the Act-RAM fill a block at most, where they lie in block RAM.
  const auto is_undercut = [&](const Taken& taken) {
    return std::ranges::any_of(smaller, [&](const Taken& known) {
      const bool has_wider = known.input_lanes > taken.input_lanes;
      if (known.blocks + (has_wider ? 1 : 0) > taken.blocks || known.input_channels > taken.input_channels || known.bytes > taken.bytes)
        return false;
      return !two_kinds || (!has_wider && covers(taken.parameters, known.parameters) && covers(taken.gradients, known.gradients));
    });
  };
  std::vector<EngineMemory> found;
  for (const EngineFront::Choice& choice : engines.keeping_up(smallest.cycles_given)) {
    if (choice.tiles() > most_tiles) break;
    const bool is_smallest = choice.tiles() <= smallest.engine.tiles();
    Taken taken{engines.least_blocks(choice), choice.input_lanes, engines.least_input_channels(), engines.least_bytes(), {}, {}};
    if (!is_smallest && !two_kinds && is_undercut(taken)) continue;
    const EnginesAtPlace::One one = engines.at(choice);
    taken.input_channels = one.input_channels();
    taken.bytes = one.bytes();
    taken.blocks = one.least_blocks();
    if (!is_smallest && !two_kinds && is_undercut(taken)) continue;
    taken.blocks = two_kinds ? one.blocks_of_one_kind() : one.blocks();
    if (two_kinds && !weights.off_chip) {
      taken.parameters = one.parameters();
      taken.gradients = one.gradients();
    }
    if (two_kinds && !is_smallest && is_undercut(taken)) continue;
    if (!is_smallest)
      found.push_back(engine_memory(one.engine(), engines.shape(), around, weights, one.blocks_anywhere(), smallest.cycles_given));
    if (one.port_cycles() < smallest.cycles_given) smaller.push_back(taken);
  }
  return found;
}

}  // namespace millrace
