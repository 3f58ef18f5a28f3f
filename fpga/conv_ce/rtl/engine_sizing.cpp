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

// visit(engine) for every rectangle of at most so many tiles.
template <typename Visit>
void for_each_engine(const ConvolutionShape& shape, int64_t most_tiles, Visit visit) {
  const std::vector<int64_t> all_outputs = lane_counts(shape.outputs, shape.groups);
  for (const int64_t inputs : lane_counts(shape.inputs, shape.groups))
    for (const int64_t outputs : all_outputs) {
      if (inputs * outputs > most_tiles) break;
      visit(engine_of(shape, inputs, outputs));
    }
}

}  // namespace

EngineParallelism engine_of(const ConvolutionShape& shape, int64_t input_lanes, int64_t output_lanes) {
  EngineParallelism engine{.kernel = shape.kernel_h, .stride = shape.stride_h, .input_lanes = input_lanes, .output_lanes = output_lanes};
  engine.channel_groups = shape.groups;
  engine.kernels_per_word = kernels_per_word(engine.tiles(), shape.out_width());
  return engine;
}

namespace {

// Of the shape, whatever the engine.
struct Walked {
  explicit Walked(const ConvolutionShape& shape) : rows(shape.out_height()), columns(shape.out_width()), back(error_back_steps(shape)) {
    const int64_t last_top = (rows - 1) * shape.stride_h - shape.pad_h;
    waited_rows =
        std::max<int64_t>(0, shape.height + shape.kernel_h - shape.pad_h - last_top - line_buffer_rows(shape.kernel_h, shape.stride_h));
  }
  int64_t rows, columns;
  ErrorBackSteps back;
  int64_t waited_rows;  // of the next sample, which the line buffer has no room for until the last row is done
};

EngineCycles cycles_of(const EngineParallelism& engine, const ConvolutionShape& shape, const Walked& walked) {
  const int64_t plane = engine.groups_of_inputs(shape.inputs) * shape.height * shape.width;
  const int64_t back = std::max(walked.back.rows * error_back_row_cycles(engine, shape, walked.back, walked.columns), plane);
  const int64_t waiting = walked.waited_rows * engine.groups_of_inputs(shape.inputs) * shape.width;
  return {.forward = std::max(walked.rows * forward_row_cycles(engine, shape, walked.columns) + waiting, plane),
          .error_back = divided_up(back, shape.height) * shape.height,
          .gradient = std::max(walked.rows * gradient_row_cycles(engine, shape, walked.columns) + waiting, plane)};
}

}  // namespace

EngineCycles engine_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return cycles_of(engine, shape, Walked(shape));
}

int64_t EngineCycles::slowest(bool with_error_back) const { return std::max({forward, with_error_back ? error_back : 0, gradient}); }

int64_t sample_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back) {
  return engine_cycles(engine, shape).slowest(error_back);
}

EngineFront::EngineFront(const ConvolutionShape& shape, bool error_back, int64_t most_tiles) {
  const auto rank = [](const Choice& choice) {
    const EngineParallelism& engine = choice.engine;
    return std::tuple(choice.slowest, std::max(engine.input_lanes, engine.output_lanes), engine.output_lanes);
  };
  // The best of every size; fewer sizes than rectangles, so none is sorted.
  const int64_t all = std::min(shape.inputs, kMostEngineLanes) * std::min(shape.outputs, kMostEngineLanes);
  const int64_t most = most_tiles > 0 ? std::min(most_tiles, all) : all;
  static thread_local std::vector<Choice> best;  // fronts are found by the hundred
  best.assign(static_cast<size_t>(most) + 1, {});
  const Walked walked(shape);
  for_each_engine(shape, most, [&](const EngineParallelism& engine) {
    const EngineCycles cycles = cycles_of(engine, shape, walked);
    const Choice choice{cycles.slowest(error_back), cycles, engine};
    Choice& known = best[static_cast<size_t>(engine.tiles())];
    if (known.slowest == 0 || rank(choice) < rank(known)) known = choice;
  });
  for (const Choice& choice : best)
    if (choice.slowest > 0 && (choices_.empty() || choice.slowest < choices_.back().slowest)) choices_.push_back(choice);
}

const EngineFront::Choice* EngineFront::smallest(int64_t cycles_per_sample) const {
  const auto found = std::ranges::partition_point(choices_, [=](const Choice& choice) { return choice.slowest > cycles_per_sample; });
  return found == choices_.end() ? nullptr : &*found;
}

std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample, bool error_back) {
  const EngineFront front(shape, error_back);
  const EngineFront::Choice* choice = front.smallest(cycles_per_sample);
  return choice == nullptr ? std::nullopt : std::optional(choice->engine);
}

EngineParallelism fastest_engine(const ConvolutionShape& shape, int64_t multipliers) {
  const auto rank = [&shape](const EngineParallelism& engine) {
    return std::tuple(sample_cycles(engine, shape), engine.tiles(), std::max(engine.input_lanes, engine.output_lanes), engine.output_lanes);
  };
  EngineParallelism best = engine_of(shape, 1, 1);
  const int64_t most_tiles = std::max<int64_t>(1, multipliers / std::max<int64_t>(best.taps(), 1));
  for_each_engine(shape, most_tiles, [&](const EngineParallelism& engine) {
    if (engine.tiles() * engine.taps() <= multipliers && rank(engine) < rank(best)) best = engine;
  });
  return best;
}

}  // namespace millrace
