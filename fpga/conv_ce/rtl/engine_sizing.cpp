#include "fpga/conv_ce/rtl/engine_sizing.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "fpga/conv_ce/rtl/cycle_model.h"

namespace millrace {

namespace {

// Of inputs or of outputs.
struct Side {
  int64_t lanes = 1;
  int64_t groups = 1;  // of channels
};

// Counts of lanes that are worth it: one lane less would take a group of channels more. Where channels come in groups that do not mix,
// those that divide the channels of one.
std::vector<Side> sides_of(int64_t all_channels, int64_t channel_groups) {
  const int64_t channels = all_channels / channel_groups;
  std::vector<Side> sides;
  int64_t before = 0;  // groups, with a lane less
  for (int64_t lanes = 1; lanes <= std::min(channels, kMostEngineLanes); ++lanes) {
    const int64_t groups = divided_up(all_channels, lanes);
    if (channel_groups == 1 ? lanes == 1 || groups < before : channels % lanes == 0) sides.push_back({lanes, groups});
    before = groups;
  }
  return sides;
}

// visit(inputs, outputs) for every rectangle of at most so many tiles.
template <typename Visit>
void for_each_engine(const ConvolutionShape& shape, int64_t most_tiles, Visit visit) {
  const std::vector<Side> all_outputs = sides_of(shape.outputs, shape.groups);
  for (const Side& inputs : sides_of(shape.inputs, shape.groups))
    for (const Side& outputs : all_outputs) {
      if (inputs.lanes * outputs.lanes > most_tiles) break;
      visit(inputs, outputs);
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

EngineCycles cycles_of(const EngineSweeps& sweeps, const ConvolutionShape& shape, const Walked& walked) {
  const int64_t plane = sweeps.input_groups * shape.height * shape.width;
  const int64_t back = std::max(walked.back.rows * error_back_row_cycles(sweeps, shape, walked.back, walked.columns), plane);
  const int64_t waiting = walked.waited_rows * sweeps.input_groups * shape.width;
  return {.forward = std::max(walked.rows * forward_row_cycles(sweeps, shape, walked.columns) + waiting, plane),
          .error_back = divided_up(back, shape.height) * shape.height,
          .gradient = std::max(walked.rows * gradient_row_cycles(sweeps, shape, walked.columns) + waiting, plane)};
}

}  // namespace

EngineCycles engine_cycles(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return cycles_of(sweeps_of(engine, shape), shape, Walked(shape));
}

int64_t EngineCycles::slowest(bool with_error_back) const { return std::max({forward, with_error_back ? error_back : 0, gradient}); }

int64_t sample_cycles(const EngineParallelism& engine, const ConvolutionShape& shape, bool error_back) {
  return engine_cycles(engine, shape).slowest(error_back);
}

EngineFront::EngineFront(const ConvolutionShape& shape, bool error_back, int64_t most_tiles) : shape_(shape) {
  // The best of every size; fewer sizes than rectangles, so none is sorted.
  struct Best {
    Choice choice;           // of 0 cycles: none yet
    int64_t load_words = 0;  // divisions are most of the work, so each is made once
  };
  const int64_t all = std::min(shape.inputs, kMostEngineLanes) * std::min(shape.outputs, kMostEngineLanes);
  const int64_t most = most_tiles > 0 ? std::min(most_tiles, all) : all;
  static thread_local std::vector<Best> best;  // fronts are found by the hundred
  best.assign(static_cast<size_t>(most) + 1, {});
  const Walked walked(shape);
  const auto cycles_with = [&](int64_t input_groups, int64_t output_groups, int64_t load_words) {
    const EngineSweeps sweeps{.input_groups = input_groups,
                              .output_groups = output_groups,
                              .input_sweeps = shape.groups == 1 ? input_groups : input_groups / shape.groups,
                              .load_words = load_words,
                              .stride = shape.stride_h};
    return cycles_of(sweeps, shape, walked);
  };
  for_each_engine(shape, most, [&](const Side& inputs, const Side& outputs) {
    Best& known = best[static_cast<size_t>(inputs.lanes * outputs.lanes)];
    if (known.load_words == 0) known.load_words = engine_of(shape, inputs.lanes, outputs.lanes).load_words();
    const int64_t slowest = cycles_with(inputs.groups, outputs.groups, known.load_words).slowest(error_back);
    const auto rank = [](int64_t cycles, int64_t of_inputs, int64_t of_outputs) {
      return std::tuple(cycles, std::max(of_inputs, of_outputs), of_outputs);
    };
    Choice& choice = known.choice;
    if (choice.slowest != 0 && rank(slowest, inputs.lanes, outputs.lanes) >= rank(choice.slowest, choice.input_lanes, choice.output_lanes))
      return;
    choice = {slowest, static_cast<int32_t>(inputs.lanes), static_cast<int32_t>(outputs.lanes)};
  });
  static thread_local std::vector<Choice> found;
  found.clear();
  for (const Best& one : best)
    if (one.choice.slowest > 0 && (found.empty() || one.choice.slowest < found.back().slowest)) found.push_back(one.choice);
  choices_.assign(found.begin(), found.end());
}

EngineParallelism EngineFront::engine(const Choice& choice) const { return engine_of(shape_, choice.input_lanes, choice.output_lanes); }

EngineCycles EngineFront::cycles(const Choice& choice) const { return engine_cycles(engine(choice), shape_); }

const EngineFront::Choice* EngineFront::smallest(int64_t cycles_per_sample) const {
  const auto found = std::ranges::partition_point(choices_, [=](const Choice& choice) { return choice.slowest > cycles_per_sample; });
  return found == choices_.end() ? nullptr : &*found;
}

std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample, bool error_back) {
  const EngineFront front(shape, error_back);
  const EngineFront::Choice* choice = front.smallest(cycles_per_sample);
  return choice == nullptr ? std::nullopt : std::optional(front.engine(*choice));
}

EngineParallelism fastest_engine(const ConvolutionShape& shape, int64_t multipliers) {
  const auto rank = [&shape](const EngineParallelism& engine) {
    return std::tuple(sample_cycles(engine, shape), engine.tiles(), std::max(engine.input_lanes, engine.output_lanes), engine.output_lanes);
  };
  EngineParallelism best = engine_of(shape, 1, 1);
  const int64_t most_tiles = std::max<int64_t>(1, multipliers / std::max<int64_t>(best.taps(), 1));
  for_each_engine(shape, most_tiles, [&](const Side& inputs, const Side& outputs) {
    const EngineParallelism engine = engine_of(shape, inputs.lanes, outputs.lanes);
    if (engine.tiles() * engine.taps() <= multipliers && rank(engine) < rank(best)) best = engine;
  });
  return best;
}

}  // namespace millrace
