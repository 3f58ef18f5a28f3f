#include "fpga/conv_ce/rtl/engine_sizing.h"

#include <algorithm>
#include <array>
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

// visit(side) for counts of lanes that are worth it: one lane less would take a group of channels more. Where channels come in groups that
// do not mix, those that divide the channels of one.
template <typename Visit>
void for_each_side(int64_t all_channels, int64_t channel_groups, Visit visit) {
  const int64_t channels = all_channels / channel_groups;
  int64_t before = 0;  // groups, with a lane less
  for (int64_t lanes = 1; lanes <= std::min(channels, kMostEngineLanes); ++lanes) {
    const int64_t groups = divided_up(all_channels, lanes);
    if (channel_groups == 1 ? lanes == 1 || groups < before : channels % lanes == 0) visit(Side{lanes, groups});
    before = groups;
  }
}

std::vector<Side> sides_of(int64_t all_channels, int64_t channel_groups) {
  std::vector<Side> sides;
  for_each_side(all_channels, channel_groups, [&](const Side& side) { sides.push_back(side); });
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

namespace {

struct Rectangle {
  int16_t inputs, outputs;  // lanes
  int16_t tiles() const { return static_cast<int16_t>(inputs * outputs); }
};

// All there are, by size.
const std::vector<Rectangle>& rectangles_by_size() {
  static const std::vector<Rectangle> all = [] {
    std::vector<Rectangle> rectangles;
    for (int16_t inputs = 1; inputs <= kMostEngineLanes; ++inputs)
      for (int16_t outputs = 1; outputs <= kMostEngineLanes; ++outputs) rectangles.push_back({inputs, outputs});
    std::stable_sort(rectangles.begin(), rectangles.end(), [](const Rectangle& a, const Rectangle& b) { return a.tiles() < b.tiles(); });
    return rectangles;
  }();
  return all;
}

// One bit for each number of lanes.
static_assert(kMostEngineLanes <= 64);
uint64_t lanes_of_sides(int64_t all_channels, int64_t channel_groups) {
  uint64_t lanes = 0;
  for_each_side(all_channels, channel_groups, [&](const Side& side) { lanes |= uint64_t{1} << (side.lanes - 1); });
  return lanes;
}

}  // namespace

EngineFront::EngineFront(const ConvolutionShape& shape, bool error_back, int64_t most_tiles)
    : shape_(shape),
      error_back_(error_back),
      most_tiles_(most_tiles > 0 ? most_tiles : kMostEngineLanes * kMostEngineLanes),
      input_sides_(lanes_of_sides(shape.inputs, shape.groups)),
      output_sides_(lanes_of_sides(shape.outputs, shape.groups)) {}

void EngineFront::find_until(int64_t cycles_per_sample) {
  const std::vector<Rectangle>& rectangles = rectangles_by_size();
  const auto is_left = [&] { return next_ < rectangles.size() && rectangles[next_].tiles() <= most_tiles_; };
  int64_t fastest = choices_.empty() ? std::numeric_limits<int64_t>::max() : choices_.back().slowest;  // of all that are smaller
  if (fastest <= cycles_per_sample || !is_left()) return;
  const Walked walked(shape_);
  // By lanes, where all engines are looked for.
  const bool is_all = cycles_per_sample < 0;
  std::array<int64_t, kMostEngineLanes + 1> input_groups, output_groups;
  for (int64_t lanes = 1; is_all && lanes <= kMostEngineLanes; ++lanes) {
    fast_item(input_groups, lanes) = divided_up(shape_.inputs, lanes);
    fast_item(output_groups, lanes) = divided_up(shape_.outputs, lanes);
  }
  const Rectangle* const last = rectangles.data() + rectangles.size();
  const Rectangle* next = rectangles.data() + next_;
  while (fastest > cycles_per_sample && next != last && next->tiles() <= most_tiles_) {
    const int16_t tiles = next->tiles();
    const int64_t load_words = divided_up(int64_t{tiles}, kernels_per_word(tiles, walked.columns));
    // Most are no faster than a smaller one by the sweeps of FP or EB alone.
    int64_t sweep = walked.rows * forward_sweep_cycles(load_words, walked.columns);
    if (error_back_) sweep = std::max(sweep, walked.back.rows * forward_sweep_cycles(load_words, walked.back.columns));
    int64_t too_long = choices_.empty() ? fastest : fastest * shape_.groups;
    Choice best;
    const auto rank = [](const Choice& choice) {
      return std::tuple(choice.slowest, std::max(choice.input_lanes, choice.output_lanes), choice.output_lanes);
    };
    for (; next != last && next->tiles() == tiles; ++next) {
      const int64_t groups_of_inputs = is_all ? fast_item(input_groups, next->inputs) : divided_up(shape_.inputs, next->inputs);
      const int64_t groups_of_outputs = is_all ? fast_item(output_groups, next->outputs) : divided_up(shape_.outputs, next->outputs);
      if (sweep * groups_of_inputs * groups_of_outputs >= too_long) continue;
      if ((input_sides_ >> (next->inputs - 1) & output_sides_ >> (next->outputs - 1) & 1) == 0) continue;
      const EngineSweeps sweeps{.input_groups = groups_of_inputs,
                                .output_groups = groups_of_outputs,
                                .input_sweeps = groups_of_inputs / shape_.groups,
                                .load_words = load_words,
                                .stride = shape_.stride_h};
      const Choice choice{cycles_of(sweeps, shape_, walked).slowest(error_back_), next->inputs, next->outputs};
      if (choice.slowest >= fastest || (best.slowest > 0 && rank(choice) >= rank(best))) continue;
      best = choice;
      too_long = best.slowest * shape_.groups + 1;
    }
    if (best.slowest == 0) continue;
    fastest = best.slowest;
    choices_.push_back(best);
  }
  next_ = to_size(next - rectangles.data());
}

std::span<const EngineFront::Choice> EngineFront::choices() {
  find_until(-1);
  return choices_;
}

EngineParallelism EngineFront::engine(const Choice& choice) const { return engine_of(shape_, choice.input_lanes, choice.output_lanes); }

EngineCycles EngineFront::cycles(const Choice& choice) const { return engine_cycles(engine(choice), shape_); }

const EngineFront::Choice* EngineFront::smallest(int64_t cycles_per_sample) {
  find_until(cycles_per_sample);
  const auto found = std::ranges::partition_point(choices_, [=](const Choice& choice) { return choice.slowest > cycles_per_sample; });
  return found == choices_.end() ? nullptr : &*found;
}

const EngineFront::Choice* EngineFront::after(const Choice& choice) {
  const size_t place = to_size(&choice - choices_.data()) + 1;
  if (place == choices_.size()) find_until(choice.slowest - 1);
  return place < choices_.size() ? &choices_[place] : nullptr;
}

std::vector<EngineFront::Choice> EngineFront::keeping_up(int64_t cycles_per_sample, int64_t most_tiles) {
  std::vector<Choice> found;
  for (const Choice* next = smallest(cycles_per_sample); next != nullptr && next->tiles() <= most_tiles; next = after(*next))
    found.push_back(*next);
  return found;
}

std::optional<EngineParallelism> smallest_engine(const ConvolutionShape& shape, int64_t cycles_per_sample, bool error_back) {
  EngineFront front(shape, error_back);
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
