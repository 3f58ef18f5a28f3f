#include "fpga/conv_ce/rtl/memory_layout.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {

namespace {

// visit(beat, lane, index in the map) for every element, in the order of the stream.
template <typename Visit>
void for_each_element(const BeatOrder& order, Visit visit) {
  int64_t beat = 0;
  for (int64_t row = 0; row < order.height;) {
    const int64_t rows = std::min(row == 0 ? order.first_block_rows : order.block_rows, order.height - row);
    for (int64_t group = 0; group < order.groups(); ++group)
      for (int64_t r = row; r < row + rows; ++r)
        for (int64_t column = 0; column < order.width; ++column, ++beat)
          for (int64_t lane = 0; lane < order.lanes; ++lane) {
            const int64_t channel = group * order.lanes + lane;
            if (channel < order.channels)
              visit(to_size(beat * order.lanes + lane), to_size((channel * order.height + r) * order.width + column));
          }
    row += rows;
  }
}

}  // namespace

size_t parameter_place(const EngineParallelism& engine, const ConvolutionShape& shape, int64_t output, int64_t input, int64_t tap) {
  const int64_t sweep = output / engine.output_lanes * engine.input_sweeps(shape.inputs) + input / engine.input_lanes;
  const int64_t tile = output % engine.output_lanes * engine.input_lanes + input % engine.input_lanes;
  const int64_t word = sweep * engine.load_words() + tile / engine.kernels_per_word;
  return to_size((word * engine.kernels_per_word + tile % engine.kernels_per_word) * engine.taps() + tap);
}

size_t parameter_elements(const EngineParallelism& engine, const ConvolutionShape& shape) {
  return to_size(engine.groups_of_outputs(shape.outputs) * engine.input_sweeps(shape.inputs) * engine.load_words() *
                 engine.kernels_per_word * engine.taps());
}

std::vector<int16_t> parameter_words(const EngineParallelism& engine, const ConvolutionShape& shape, std::span<const int16_t> weight) {
  MILLRACE_CHECK(shape.groups == engine.channel_groups && weight.size() == shape.weight_elements(), "{} weights in {} groups of {}",
                 weight.size(), shape.groups, engine.channel_groups);
  std::vector<int16_t> words(parameter_elements(engine, shape));
  size_t at = 0;
  for (int64_t output = 0; output < shape.outputs; ++output)
    for (int64_t input = 0; input < shape.inputs / shape.groups; ++input)
      for (int64_t tap = 0; tap < engine.taps(); ++tap) words[parameter_place(engine, shape, output, input, tap)] = weight[at++];
  return words;
}

std::vector<int32_t> gradients_of_words(const EngineParallelism& engine, const ConvolutionShape& shape, std::span<const int32_t> words) {
  MILLRACE_CHECK(words.size() >= parameter_elements(engine, shape), "{} elements of {}", words.size(), parameter_elements(engine, shape));
  std::vector<int32_t> gradients;
  for (int64_t output = 0; output < shape.outputs; ++output)
    for (int64_t input = 0; input < shape.inputs / shape.groups; ++input)
      for (int64_t tap = 0; tap < engine.taps(); ++tap) gradients.push_back(words[parameter_place(engine, shape, output, input, tap)]);
  return gradients;
}

std::vector<int16_t> beats_of_map(const BeatOrder& order, std::span<const int16_t> map) {
  MILLRACE_CHECK(static_cast<int64_t>(map.size()) == order.channels * order.height * order.width, "{} elements", map.size());
  std::vector<int16_t> beats(to_size(order.beats() * order.lanes));
  for_each_element(order, [&](size_t place, size_t index) { beats[place] = map[index]; });
  return beats;
}

std::vector<int16_t> map_of_beats(const BeatOrder& order, std::span<const int16_t> beats) {
  MILLRACE_CHECK(static_cast<int64_t>(beats.size()) == order.beats() * order.lanes, "{} elements in {} beats", beats.size(), order.beats());
  std::vector<int16_t> map(to_size(order.channels * order.height * order.width));
  for_each_element(order, [&](size_t place, size_t index) { map[index] = beats[place]; });
  return map;
}

}  // namespace millrace
