#include "fpga/cost/blocked_engines.h"

#include <algorithm>

#include "core/base/error.h"
#include "fpga/sbe/rtl/engine_hardware.h"

namespace millrace {

namespace {

bool can_be_built(const SbeConfig& config) {
  try {
    check_buildable(config);
  } catch (const Error&) {
    return false;
  }
  return true;
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

SbeSpace planned_space(const GateMatrix& shape, int64_t steps, int64_t streams) {
  return {.shape = shape,
          .steps = steps,
          .least_streams = streams,
          .most_streams = streams,
          .latency = kBuiltLatency,
          .inputs_share_bus = false,
          .allowed = can_be_built};
}

const BlockedEngine* BlockedEngines::within(const Node& node, double period_seconds) const {
  const Ways& ways = ways_of(node);
  const auto behind = std::upper_bound(ways.all.begin(), ways.all.end(), period_seconds,
                                       [](double period, const BlockedEngine& engine) { return period < engine.seconds_per_sample; });
  if (behind == ways.all.begin()) return nullptr;
  return &ways.all[ways.best[static_cast<size_t>(behind - ways.all.begin()) - 1]];
}

const BlockedEngines::Ways& BlockedEngines::ways_of(const Node& node) const {
  const GateMatrix shape = sbe_shape_of(node);
  const int64_t steps = node.output.height;
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Ways>& ways = known_[{shape.inputs, shape.hidden, shape.gates, steps}];
  if (ways != nullptr) return *ways;
  ways = std::make_unique<Ways>();
  const Exploration found = explore(planned_space(shape, steps, streams_), board_);
  for (const SbePoint& point : found.front) {
    const auto batches = static_cast<double>(steps / point.config.steps) / static_cast<double>(streams_);
    const SbeUse& use = point.use;
    const double seconds = batches * point.seconds, bytes = 2 * batches * static_cast<double>(point.timing.words);
    const auto of = [](double amount, double there) { return there > 0 ? amount / there : amount > 0 ? 1.0 : 0.0; };
    const double share = std::max({of(use.dsp, board_.dsp), of(use.bram36, board_.bram36), of(use.lut, kUsableLuts * board_.lut),
                                   of(use.uram, board_.uram), of(bytes / seconds, board_.bytes_per_second)});
    ways->all.push_back({point, seconds, bytes, share});
  }
  std::ranges::stable_sort(ways->all, {}, &BlockedEngine::seconds_per_sample);
  for (size_t i = 0; i < ways->all.size(); ++i) {
    const bool better = i == 0 || ways->all[i].share < ways->all[ways->best.back()].share;
    ways->best.push_back(better ? i : ways->best.back());
  }
  return *ways;
}

}  // namespace millrace
