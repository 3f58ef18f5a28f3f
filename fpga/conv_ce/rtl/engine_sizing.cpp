#include "fpga/conv_ce/rtl/engine_sizing.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "fpga/conv_ce/rtl/cycle_model.h"

namespace millrace {

namespace {

// Counts of lanes that are worth it: one lane less would take a group of channels more. Where channels come in groups that do not mix,
// those that divide the channels of one.
std::vector<int64_t> lane_counts(int64_t all_channels, int64_t channel_groups) {
  const int64_t channels = all_channels / channel_groups;
  std::vector<int64_t> counts;
  for (int64_t lanes = 1; lanes <= std::min(channels, kMostEngineLanes); ++lanes)
    if (channel_groups == 1 ? lanes == 1 || divided_up(channels, lanes) < divided_up(channels, lanes - 1) : channels % lanes == 0)
      counts.push_back(lanes);
  return counts;
}

// visit(engine) for every rectangle.
template <typename Visit>
void for_each_engine(const ConvolutionShape& shape, Visit visit) {
  for (const int64_t inputs : lane_counts(shape.inputs, shape.groups))
    for (const int64_t outputs : lane_counts(shape.outputs, shape.groups)) visit(engine_of(shape, inputs, outputs));
}

}  // namespace

EngineParallelism engine_of(const ConvolutionShape& shape, int64_t input_lanes, int64_t output_lanes) {
  EngineParallelism engine{.kernel = shape.kernel_h, .stride = shape.stride_h, .input_lanes = input_lanes, .output_lanes = output_lanes};
  engine.channel_groups = shape.groups;
  engine.kernels_per_word = kernels_per_word(engine.tiles(), shape.out_width());
  return engine;
}

int64_t sample_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return std::max({shape.out_height() * forward_row_cycles(engine, shape),
                   error_back_steps(shape).rows * error_back_row_cycles(engine, shape),
                   shape.out_height() * gradient_row_cycles(engine, shape)});
}

std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample) {
  const auto rank = [](const EngineParallelism& engine) {
    return std::tuple(engine.tiles(), std::max(engine.input_lanes, engine.output_lanes), engine.output_lanes);
  };
  std::optional<EngineParallelism> best;
  for_each_engine(shape, [&](const EngineParallelism& engine) {
    if (sample_cycles(engine, shape) <= cycles_per_sample && (!best || rank(engine) < rank(*best))) best = engine;
  });
  return best;
}

EngineParallelism fastest_engine(const ConvolutionShape& shape, int64_t multipliers) {
  const auto rank = [&shape](const EngineParallelism& engine) {
    return std::tuple(sample_cycles(engine, shape), engine.tiles(), std::max(engine.input_lanes, engine.output_lanes), engine.output_lanes);
  };
  EngineParallelism best = engine_of(shape, 1, 1);
  for_each_engine(shape, [&](const EngineParallelism& engine) {
    if (engine.tiles() * engine.taps() <= multipliers && rank(engine) < rank(best)) best = engine;
  });
  return best;
}

}  // namespace millrace
