#include "fpga/cost/blocked_engines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/index.h"
#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

namespace {

BlockedEngine engine_of(const SbePoint& point, int64_t steps, const SbeBoard& board) {
  const auto batches = static_cast<double>(steps / point.config.steps) / static_cast<double>(point.config.streams);
  const SbeUse& use = point.use;
  const double seconds = batches * point.seconds, bytes = 2 * batches * static_cast<double>(point.timing.words);
  const auto of = [](double amount, double there) { return there > 0 ? amount / there : amount > 0 ? 1.0 : 0.0; };
  const double share = std::max({of(use.dsp, board.dsp), of(use.bram36, board.bram36), of(use.lut, kUsableLuts * board.lut),
                                 of(use.uram, board.uram), of(bytes / seconds, board.bytes_per_second)});
  return {point, seconds, bytes, share};
}

std::vector<SbeSpace> spaces_of(std::span<const Node* const> nodes, const InferenceBatch& batch) {
  std::vector<SbeSpace> spaces;
  for (const Node* node : nodes) spaces.push_back(planned_space(sbe_shape_of(*node), node->output.height, batch));
  return spaces;
}

// The nearest numbers of hidden units that an engine is generated for. Multiples of the words of a beat always fill it.
std::string sizes_around(const SbeSpace& space, int64_t words_per_cycle) {
  const auto has = [&](int64_t hidden) {
    SbeSpace other = space;
    other.shape.hidden = hidden;
    return hidden >= std::max<int64_t>(1, space.shape.projection) && has_array(other, words_per_cycle);
  };
  std::vector<std::string> sizes;
  int64_t below = space.shape.hidden - 1, above = space.shape.hidden + 1;
  while (below >= 1 && below > space.shape.hidden - words_per_cycle && !has(below)) --below;
  while (above < space.shape.hidden + words_per_cycle && !has(above)) ++above;
  for (const int64_t hidden : {below, above})
    if (has(hidden)) sizes.push_back(std::to_string(hidden));
  if (sizes.empty()) return fmt::format("; hidden units and projected features that are multiples of {} would do", words_per_cycle);
  return fmt::format("; {} would do", fmt::join(sizes, " or "));
}

// Of a search that found none.
std::string refusal_of(const SbeSpace& space, const Exploration& found, const SbeBoard& board) {
  const GateMatrix& shape = space.shape;
  if (found.points == 0 && !has_array(space, board.words_per_cycle()))
    return fmt::format("no engine of {} is generated for {} hidden units{}{}", board.name, shape.hidden,
                       shape.projection > 0 ? fmt::format(" projected to {}", shape.projection) : "",
                       sizes_around(space, board.words_per_cycle()));
  if (found.points == 0)
    return fmt::format("no engine of {} is generated for {} hidden units with such batches of {} steps", board.name, shape.hidden,
                       space.steps);
  if (found.remedies.empty())
    return fmt::format("its engine lacks several of the resources of {}, however it is built; take a larger board", board.name);
  const Remedy& least = found.remedies.front();
  return fmt::format("its engine takes {:.0f} {} at least, and {} has {:.0f}; take a larger board", least.needed, least.limit, board.name,
                     least.is);
}

KnownLayers known_layers(const InferenceBatch& batch) {
  if (batch.known == nullptr) return {};
  const std::lock_guard lock(batch.known->mutex);
  return batch.known->together[{batch.steps, batch.blocks}];
}

// A way more, for periods from `seconds` on.
void add(const JointChoice& choice, double seconds, std::span<const Node* const> nodes, const SbeBoard& board, const BoardShare& taken,
         EnginesTogether& chosen) {
  double slices = std::max(0.0, board.dsp - taken.dsp);
  for (size_t i = 0; i < nodes.size(); ++i) {
    SbePoint point = point_of(choice.configs[i], board);
    const double wanted = point.use.dsp + static_cast<double>(point.use.fabric_multipliers), given = std::min(wanted, slices);
    point.use.lut += (point.use.dsp - given) * kLutsOfFabricMultiplier;
    point.use.dsp = given;
    point.use.fabric_multipliers = static_cast<int64_t>(wanted - given);
    slices -= given;
    EnginesTogether::Ways& ways = chosen.of_layers[nodes[i]->layer.name];
    ways.seconds.push_back(seconds);
    ways.engines.push_back(engine_of(point, nodes[i]->output.height, board));
  }
}

}  // namespace

SbeBoard sbe_board_of(const FpgaResources& board) {
  return {.name = board.name,
          .dsp = board.dsps,
          .lut = board.luts,
          .lutram_lut = board.lutram_luts,
          .bram36 = board.bram36,
          .uram = board.urams,
          .bytes_per_second = kUsableBandwidth * board.off_chip_bytes_per_second,
          .clock_hz = static_cast<double>(board.clock_hz)};
}

SbeSpace planned_space(const GateMatrix& shape, int64_t steps, const InferenceBatch& batch) {
  SbeSpace space{.shape = shape,
                 .steps = steps,
                 .least_streams = batch.streams,
                 .most_streams = batch.streams,
                 .latency = kBuiltLatency,
                 .inputs_share_bus = false};
  space.most_blocks = std::max(space.most_blocks, batch.blocks);
  space.allowed = [steps = batch.steps, blocks = batch.blocks](const SbeConfig& config) {
    if (steps > 0 && config.steps != steps) return false;
    if (blocks > 0 && static_cast<int64_t>(blocks_of(config).size()) != blocks) return false;
    return can_be_built(config);
  };
  space.array_allowed = array_can_be_built;
  return space;
}

EnginesTogether engines_together(std::span<const Node* const> nodes, const FpgaResources& board, const InferenceBatch& batch,
                                 const BoardShare& taken) {
  constexpr size_t kMostTried = 12;
  const SbeBoard whole = sbe_board_of(board);
  EnginesTogether chosen;
  if (std::ranges::any_of(nodes, [](const Node* node) { return !sbe_refusal(*node).empty(); })) return chosen;
  for (const JointChoice& choice : explore_together(spaces_of(nodes, batch), whole, taken, kMostTried, known_layers(batch)).front)
    add(choice, choice.seconds, nodes, whole, taken, chosen);
  return chosen;
}

EnginesTogether engines_at_paces(std::span<const Node* const> nodes, const FpgaResources& board, const InferenceBatch& batch,
                                 const BoardShare& others, double period_seconds) {
  constexpr int kHalvings = 7;
  constexpr double kStep = 1.02;
  const SbeBoard whole = sbe_board_of(board);
  const JointExplorer search(spaces_of(nodes, batch), whole, known_layers(batch));
  const auto taken_at = [&](double period) {
    const double pace = period_seconds / period;
    return BoardShare{.dsp = others.dsp * pace, .lut = others.lut * pace, .bram36 = others.bram36};
  };
  const auto fastest_at = [&](double period) { return search.within(taken_at(period), 1).fastest; };
  EnginesTogether chosen;
  const std::optional<JointChoice> bound = fastest_at(period_seconds);
  if (!bound || bound->seconds > period_seconds) return chosen;
  double low = bound->seconds, high = period_seconds;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    const std::optional<JointChoice> found = fastest_at(middle);
    (found && found->seconds <= middle ? high : low) = middle;
  }
  for (double period = high; period < period_seconds * kStep; period *= kStep) {
    const std::optional<JointChoice> found = fastest_at(period);
    if (found && found->seconds <= period) add(*found, period, nodes, whole, taken_at(period), chosen);
  }
  return chosen;
}

BlockedEngines::BlockedEngines(const FpgaResources& board, const InferenceBatch& batch) : board_(sbe_board_of(board)), batch_(batch) {
  if (batch_.known == nullptr) batch_.known = std::make_shared<KnownEngines>();
}

const BlockedEngine* BlockedEngines::within(const Node& node, double period_seconds) const {
  if (batch_.together != nullptr)
    if (const auto found = batch_.together->of_layers.find(node.layer.name); found != batch_.together->of_layers.end()) {
      const std::vector<double>& seconds = found->second.seconds;
      const auto behind = std::ranges::upper_bound(seconds, period_seconds);
      return behind == seconds.begin() ? nullptr : &found->second.engines[to_size(behind - seconds.begin()) - 1];
    }
  if (!sbe_refusal(node).empty()) return nullptr;
  const KnownEngines::Ways& ways = ways_of(node);
  const auto behind = std::upper_bound(ways.all.begin(), ways.all.end(), period_seconds,
                                       [](double period, const BlockedEngine& engine) { return period < engine.seconds_per_sample; });
  if (behind == ways.all.begin()) return nullptr;
  return &ways.all[ways.best[to_size(behind - ways.all.begin()) - 1]];
}

std::string BlockedEngines::refusal(const Node& node) const {
  std::string why = sbe_refusal(node);
  return why.empty() ? ways_of(node).refusal : why;
}

const KnownEngines::Ways& BlockedEngines::ways_of(const Node& node) const {
  const GateMatrix shape = sbe_shape_of(node);
  const int64_t steps = node.output.height;
  const std::lock_guard lock(batch_.known->mutex);
  std::unique_ptr<const KnownEngines::Ways>& known =
      batch_.known
          ->alone[{board_, shape.inputs, shape.hidden, shape.gates, shape.projection, steps, batch_.streams, batch_.steps, batch_.blocks}];
  if (known != nullptr) return *known;
  auto ways = std::make_unique<KnownEngines::Ways>();
  const SbeSpace space = planned_space(shape, steps, batch_);
  const Exploration found = explore(space, board_);
  if (found.front.empty()) ways->refusal = refusal_of(space, found, board_);
  for (const SbePoint& point : found.front) ways->all.push_back(engine_of(point, steps, board_));
  std::ranges::stable_sort(ways->all, {}, &BlockedEngine::seconds_per_sample);
  for (size_t i = 0; i < ways->all.size(); ++i) {
    const bool better = i == 0 || ways->all[i].share < ways->all[ways->best.back()].share;
    ways->best.push_back(better ? i : ways->best.back());
  }
  known = std::move(ways);
  return *known;
}

}  // namespace millrace
