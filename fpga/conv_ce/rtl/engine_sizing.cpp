#include "fpga/conv_ce/rtl/engine_sizing.h"

#include <algorithm>
#include <limits>
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
  struct Rectangle {
    int16_t inputs, outputs;  // which side
    int32_t next;             // of the same size
  };
  const int64_t all = std::min(shape.inputs, kMostEngineLanes) * std::min(shape.outputs, kMostEngineLanes);
  const int64_t most = most_tiles > 0 ? std::min(most_tiles, all) : all;
  const std::vector<Side> input_sides = sides_of(shape.inputs, shape.groups);
  const std::vector<Side> output_sides = sides_of(shape.outputs, shape.groups);
  // By size, so that none is sorted; kept, since fronts are found by the hundred.
  static thread_local std::vector<int32_t> first;
  static thread_local std::vector<Rectangle> rectangles;
  static thread_local std::vector<Choice> found;
  first.assign(static_cast<size_t>(most) + 1, -1);
  rectangles.clear();
  found.clear();
  for (size_t i = 0; i < input_sides.size(); ++i)
    for (size_t o = 0; o < output_sides.size(); ++o) {
      const int64_t tiles = input_sides[i].lanes * output_sides[o].lanes;
      if (tiles > most) break;
      rectangles.push_back({static_cast<int16_t>(i), static_cast<int16_t>(o), first[static_cast<size_t>(tiles)]});
      first[static_cast<size_t>(tiles)] = static_cast<int32_t>(rectangles.size() - 1);
    }
  const Walked walked(shape);
  int64_t fastest = std::numeric_limits<int64_t>::max();  // of all that are smaller
  for (size_t tiles = 1; tiles < first.size(); ++tiles) {
    if (first[tiles] < 0) continue;
    const Rectangle& any = rectangles[static_cast<size_t>(first[tiles])];
    const int64_t load_words =
        engine_of(shape, input_sides[static_cast<size_t>(any.inputs)].lanes, output_sides[static_cast<size_t>(any.outputs)].lanes)
            .load_words();
    const int64_t least_of_sweeps = walked.rows * forward_sweep_cycles(load_words, walked.columns);
    Choice best;
    const auto rank = [](const Choice& choice) {
      return std::tuple(choice.slowest, std::max(choice.input_lanes, choice.output_lanes), choice.output_lanes);
    };
    for (int32_t i = first[tiles]; i >= 0; i = rectangles[static_cast<size_t>(i)].next) {
      const Side& inputs = input_sides[static_cast<size_t>(rectangles[static_cast<size_t>(i)].inputs)];
      const Side& outputs = output_sides[static_cast<size_t>(rectangles[static_cast<size_t>(i)].outputs)];
      const int64_t input_sweeps = shape.groups == 1 ? inputs.groups : inputs.groups / shape.groups;
      // Most are no faster than a smaller one by FP alone.
      const int64_t least = least_of_sweeps * outputs.groups * input_sweeps;
      if (least >= fastest || (best.slowest > 0 && least > best.slowest)) continue;
      const EngineSweeps sweeps{.input_groups = inputs.groups,
                                .output_groups = outputs.groups,
                                .input_sweeps = input_sweeps,
                                .load_words = load_words,
                                .stride = shape.stride_h};
      const Choice choice{cycles_of(sweeps, shape, walked).slowest(error_back), static_cast<int32_t>(inputs.lanes),
                          static_cast<int32_t>(outputs.lanes)};
      if (choice.slowest < fastest && (best.slowest == 0 || rank(choice) < rank(best))) best = choice;
    }
    if (best.slowest == 0) continue;
    fastest = best.slowest;
    found.push_back(best);
  }
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
