#include "fpga/cost/generated_engines.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <ranges>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/conv_ce/generator/device_resources.h"

namespace millrace {

namespace {

bool can_be_built(const ConvolutionShape& shape) {
  return shape.kernel_h == shape.kernel_w && shape.stride_h == shape.stride_w && shape.pad_h == shape.pad_w &&
         shape.pad_h <= shape.kernel_h / 2;
}

// Channels of a part that do not mix have kernels of zero between them: of more groups a part computes so much more than the whole that
// none is worth it.
constexpr int64_t kMostDividedGroups = 2;
// Layers of the image with fewer are divided by outputs.
constexpr int64_t kFewInputs = 16;

int64_t whole_cycles(double seconds, double clock_hz) {
  constexpr double kMostCycles = 4e18;  // stays an int64_t
  return static_cast<int64_t>(std::min(std::floor(seconds * clock_hz + kCycleRounding), kMostCycles));
}

ChannelRange joined(const ChannelRange& a, const ChannelRange& b) { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

}  // namespace

GeneratedEngines::GeneratedEngines(const Graph& graph, double slowest_clock_hz, int64_t most_multipliers)
    : graph_(&graph), slowest_clock_hz_(slowest_clock_hz), most_multipliers_(most_multipliers), layers_(graph.nodes().size()) {
  for (int64_t lanes = 1; lanes <= kMostStreamLanes; lanes *= 2) widths_.push_back({lanes, joined_and_pooled_cycles(graph, lanes)});
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Node& node = graph.nodes()[i];
    std::optional<ConvolutionShape> shape = layer_shape(graph, node);
    if (!shape) continue;
    // A map that is taken flat is one to streams. A kernel with zeros may cover the map and is not taken so.
    const bool is_flat = takes_map_flat(*shape);
    if (!is_flat) shape = held_windows(*shape, {{0, shape->inputs}, {0, shape->outputs}});
    for (Width& width : widths_) width.cycles = std::max(width.cycles, stream_cycles(*shape, width.lanes));
    if (!is_flat && !can_be_built(*shape)) continue;
    const bool dense = std::holds_alternative<Dense>(node.layer.operation);
    const bool error_back = node.error_needed && !reads_network_input(graph, node);
    Layer layer{.whole = *shape,
                .elements_per_channel = dense ? shape->height * shape->width : 1,
                .is_flat = is_flat,
                .error_back = error_back,
                .by_outputs = reads_network_input(graph, node) && shape->inputs < kFewInputs,
                .alike = i,
                .error_block_rows = 1,
                .dropout_cycles = {},
                .after = nullptr,
                .fronts = {}};
    add_blocks_after(item(graph.groups(), node.group), layer);
    const auto alike = std::ranges::find_if(layers_, [&](const std::optional<Layer>& other) {
      return other && other->whole == *shape && other->is_flat == is_flat && other->error_back == error_back;
    });
    if (alike != layers_.end()) {
      layer.fronts = (*alike)->fronts;
    } else {
      // Of a map that is taken flat, engines depend on the streams' width.
      for (size_t width = 0; width < widths_.size(); ++width) {
        if (width > 0 && !is_flat) {
          layer.fronts.push_back(layer.fronts.front());
          continue;
        }
        const int64_t inputs = rounded_up(shape->inputs, is_flat ? widths_[width].lanes : 1);
        layer.fronts.push_back({std::make_shared<Fronts>(inputs), std::make_shared<Fronts>(shape->outputs)});
      }
    }
    for (size_t other = 0; other < i && layer.alike == i; ++other)
      if (layers_[other] && layers_[other]->fronts.front().by_inputs == layer.fronts.front().by_inputs &&
          layers_[other]->by_outputs == layer.by_outputs && layers_[other]->error_block_rows == layer.error_block_rows)
        layer.alike = other;
    layers_[i] = std::move(layer);
  }
}

// Nothing where some layer behind the sum has no hardware.
void GeneratedEngines::add_blocks_after(const LayerGroup& group, Layer& layer) const {
  std::vector<BlocksAfterSum> after;
  int64_t slowest_dropout = 0;
  try {
    for (const Width& width : widths_) {
      const MemoriesAfterSum memories = memories_after_sum(*graph_, group, width.lanes);
      layer.error_block_rows = std::max(layer.error_block_rows, memories.error_block_rows);
      // A longer period has narrower streams, and never slower ones.
      slowest_dropout = std::max(slowest_dropout, memories.dropout_cycles);
      layer.dropout_cycles.push_back(slowest_dropout);
      BlocksAfterSum blocks{.before = {}, .bram18 = memories.bram18, .large = {}};
      for (const MemoryShape& memory : memories.before) blocks.before.emplace_back(memory);
      for (const MemoryShape& memory : memories.large) blocks.large.emplace_back(memory);
      after.push_back(std::move(blocks));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnavailable) throw;
    return;
  }
  layer.after = std::make_shared<const std::vector<BlocksAfterSum>>(std::move(after));
}

const BlocksAfterSum* GeneratedEngines::after_sum(const GeneratedEngine& engine) const {
  const Layer& layer = *layers_[engine.layer];
  return layer.after ? &(*layer.after)[engine.width] : nullptr;
}

ConvolutionShape GeneratedEngines::shape_held(const Layer& layer, const HeldChannels& held, int64_t lanes) {
  return layer.is_flat ? held_shape(layer.whole, held, lanes) : held_windows(layer.whole, held);
}

ConvolutionShape GeneratedEngines::whole_shape(const Layer& layer, int64_t lanes) {
  return shape_held(layer, {{0, layer.whole.inputs}, {0, layer.whole.outputs}}, lanes);
}

GeneratedEngines::Fronts& GeneratedEngines::fronts_of(const Layer& layer, size_t width, const ConvolutionShape& held) const {
  const FrontsOfWidth& fronts = layer.fronts[width];
  return held.inputs == whole_shape(layer, widths_[width].lanes).inputs ? *fronts.of_outputs : *fronts.by_inputs;
}

int64_t GeneratedEngines::most_tiles(const Layer& layer, const ConvolutionShape& held) const {
  const int64_t multipliers = held.kernel_h * held.kernel_w * (layer.error_back ? 3 : 2);
  return most_multipliers_ > 0 ? std::max<int64_t>(1, most_multipliers_ / multipliers) : 0;
}

std::unique_ptr<EngineFront> GeneratedEngines::new_front(const Layer& layer, const ConvolutionShape& held) const {
  return std::make_unique<EngineFront>(held, layer.error_back, most_tiles(layer, held));
}

std::unique_ptr<EngineFront>& GeneratedEngines::front_at(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held) {
  const bool of_outputs = &fronts == layer.fronts[width].of_outputs.get();
  return item(fronts.of_channels, of_outputs ? held.outputs : layer.map_channels(held));
}

// Where nobody else asks.
EngineFront& GeneratedEngines::front_of(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held) const {
  std::unique_ptr<EngineFront>& front = front_at(fronts, layer, width, held);
  if (!front) front = new_front(layer, held);
  return *front;
}

// Whoever asks for others meanwhile does not wait until it is found.
const EngineFront& GeneratedEngines::whole_front_of(Fronts& fronts, const Layer& layer, size_t width, const ConvolutionShape& held) const {
  std::unique_ptr<EngineFront> whole;
  std::unique_lock lock(fronts.mutex);
  std::unique_ptr<EngineFront>& front = front_at(fronts, layer, width, held);
  if (!front) {
    lock.unlock();
    whole = new_front(layer, held);
    whole->choices();
    lock.lock();
    if (!front) front = std::move(whole);
  }
  front->choices();
  return *front;
}

std::optional<EngineParallelism> GeneratedEngines::engine_within(const Layer& layer, size_t width, const ConvolutionShape& held,
                                                                 int64_t cycles) const {
  Fronts& fronts = fronts_of(layer, width, held);
  const std::lock_guard lock(fronts.mutex);
  EngineFront& front = front_of(fronts, layer, width, held);
  const EngineFront::Choice* choice = front.smallest(cycles);
  return choice == nullptr ? std::nullopt : std::optional(front.engine(*choice));
}

std::vector<GeneratedEngine> GeneratedEngines::that_keep_up(const GeneratedEngine& smallest, int64_t most_tiles) const {
  const Layer& layer = *layers_[smallest.layer];
  Fronts& fronts = fronts_of(layer, smallest.width, smallest.held);
  const std::lock_guard lock(fronts.mutex);
  EngineFront& front = front_of(fronts, layer, smallest.width, smallest.held);
  std::vector<GeneratedEngine> found;
  for (const EngineFront::Choice& choice : front.keeping_up(smallest.cycles_given, most_tiles)) {
    found.push_back(smallest);
    found.back().engine = front.engine(choice);
    found.back().reserved_tiles = choice.tiles();
    found.back().cycles = engine_cycles(found.back().engine, smallest.held);
  }
  return found;
}

GeneratedEngine GeneratedEngines::of_size(GeneratedEngine engine, int64_t most_tiles) const {
  const std::vector<GeneratedEngine> all = that_keep_up(engine, most_tiles);
  return all.empty() ? engine : all.back();
}

size_t GeneratedEngines::place_of(const Node& node) const {
  const auto place = &node - graph_->nodes().data();
  MILLRACE_CHECK(place >= 0 && place < static_cast<std::ptrdiff_t>(layers_.size()), "layer {} is another graph's", node.layer.name);
  return to_size(place);
}

bool GeneratedEngines::divides(const Node& node) const {
  const std::optional<Layer>& layer = item(layers_, place_of(node));
  return !layer || layer->whole.groups <= kMostDividedGroups;
}

std::shared_ptr<const GeneratedEngines> GeneratedEngines::at_clock(double slowest_clock_hz) const {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const GeneratedEngines>& other = at_other_clocks_[slowest_clock_hz];
  if (!other) other = std::make_shared<GeneratedEngines>(*graph_, slowest_clock_hz, most_multipliers_);
  return other;
}

size_t GeneratedEngines::width_for(double period_seconds) const {
  const int64_t passing = whole_cycles(period_seconds, slowest_clock_hz_);
  return to_size(std::ranges::find_if(widths_, [=](const Width& width) { return width.cycles <= passing; }) - widths_.begin());
}

std::optional<GeneratedEngine> GeneratedEngines::engine_for(const Node& node, std::span<const Block> blocks, double period_seconds,
                                                            double clock_hz) const {
  std::optional<GeneratedEngine> built = without_engine(node, blocks, period_seconds, clock_hz);
  if (built && built->passes) add_engine(*built);
  return built;
}

std::optional<GeneratedEngine> GeneratedEngines::without_engine(const Node& node, std::span<const Block> blocks, double period_seconds,
                                                                double clock_hz) const {
  const size_t place = place_of(node);
  if (!item(layers_, place)) return std::nullopt;
  const Layer& layer = *item(layers_, place);
  const ConvolutionShape& whole = layer.whole;
  GeneratedEngine built;
  built.error_back = layer.error_back;
  built.held = whole_shape(layer, built.lanes);
  built.width = width_for(period_seconds);
  if (built.width == widths_.size()) return built;
  const int64_t dropout_cycles = layer.after ? item(layer.dropout_cycles, built.width) : 0;
  if (dropout_cycles > whole_cycles(period_seconds, slowest_clock_hz_)) return built;
  built.lanes = widths_[built.width].lanes;
  built.stream_seconds = static_cast<double>(std::max(stream_cycles(whole, built.lanes), dropout_cycles)) / slowest_clock_hz_;
  HeldChannels held{{0, whole.inputs}, {0, whole.outputs}};
  if (!blocks.empty() && whole.groups <= kMostDividedGroups) {
    ChannelRange inputs = blocks.front().inputs, outputs = blocks.front().outputs;
    for (const Block& block : blocks) {
      inputs = joined(inputs, block.inputs);
      outputs = joined(outputs, block.outputs);
    }
    // Divided by outputs, a shard has all inputs; otherwise it makes sums of all outputs.
    const bool by_outputs = inputs.size() == whole.inputs * layer.elements_per_channel;
    if (!by_outputs) held.inputs = whole_lane_groups(inputs, layer.elements_per_channel, built.lanes, whole.inputs);
    if (by_outputs) held.outputs = whole_lane_groups(outputs, 1, built.lanes, whole.outputs);
  }
  built.held = shape_held(layer, held, built.lanes);
  built.layer = place;
  built.cycles_given = whole_cycles(period_seconds, clock_hz);
  built.passes = true;
  return built;
}

void GeneratedEngines::add_engine(GeneratedEngine& built) const {
  const Layer& layer = *layers_[built.layer];
  const int64_t cycles = built.cycles_given;
  const std::optional<EngineParallelism> engine = engine_within(layer, built.width, built.held, cycles);
  if (!engine) return;
  built.keeps_up = true;
  built.engine = *engine;
  built.reserved_tiles = built.engine.tiles();
  built.cycles = engine_cycles(built.engine, built.held);
  if (built.held.groups > 1 && built.held.groups <= kMostDividedGroups) {  // a part computes as much as the whole, or more
    const ConvolutionShape& whole = layer.whole;
    const ConvolutionShape part = shape_held(
        layer, {whole_lane_groups({0, whole.inputs / whole.groups}, 1, built.lanes, whole.inputs), {0, whole.outputs}}, built.lanes);
    const std::optional<EngineParallelism> of_part = engine_within(layer, built.width, part, cycles);
    if (!of_part) built.keeps_up = false;
    if (of_part) built.reserved_tiles = std::max(built.reserved_tiles, of_part->tiles());
  }
}

}  // namespace millrace
