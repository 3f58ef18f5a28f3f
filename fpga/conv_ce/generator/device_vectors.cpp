#include "fpga/conv_ce/generator/device_vectors.h"

#include <algorithm>
#include <random>
#include <span>

#include "core/base/check.h"
#include "fpga/conv_ce/arithmetic/fixed_convolution.h"
#include "fpga/conv_ce/rtl/memory_layout.h"

namespace millrace {

namespace {

using Map = std::vector<int16_t>;

Map random_map(std::mt19937_64& random, int64_t elements, int bits) {
  Map map(static_cast<size_t>(elements));
  for (int16_t& element : map)
    element = static_cast<int16_t>(static_cast<int64_t>(random() % (uint64_t{1} << bits)) - (int64_t{1} << (bits - 1)));
  return map;
}

// Rows of a pooled map, as infer_shape counts them: where the whole map's last window is partial, so is the cropped one's.
int64_t pooled_rows(const ShardDesign& whole, int64_t rows) {
  const PoolingWindow& window = whole.window;
  const bool rounds_up = window.out_height > (window.height + 2 * window.pad_h - window.kernel_h) / window.stride_h + 1;
  const int64_t room = rows + 2 * window.pad_h - window.kernel_h;
  if (room < 0) return 0;
  int64_t count = room / window.stride_h + 1;
  if (rounds_up && room % window.stride_h != 0 && count * window.stride_h < rows + window.pad_h) ++count;
  return count;
}

void append(std::vector<int16_t>& beats, const BeatOrder& order, const Map& map) {
  const std::vector<int16_t> some = beats_of_map(order, map);
  beats.insert(beats.end(), some.begin(), some.end());
}

Map channels_of(const Map& map, int64_t begin, int64_t end, int64_t plane) {
  return {map.begin() + begin * plane, map.begin() + end * plane};
}

// `rest` begins at element `begin` of all; where both have something their sum saturates.
Map joined(const Map& own, const Map& rest, size_t begin) {
  Map all = own;
  all.resize(begin + rest.size());
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool shared = begin + i < own.size();
    all[begin + i] = static_cast<int16_t>(saturated(int64_t{rest[i]} + (shared ? own[begin + i] : 0)));
  }
  return all;
}

StreamVectors& stream(std::vector<StreamVectors>& streams, const std::string& name, int64_t lanes) {
  for (StreamVectors& known : streams)
    if (known.name == name) return known;
  streams.push_back({name, {}, lanes});
  return streams.back();
}

// What one sample leaves behind on its way forward.
struct Trace {
  std::vector<Map> inputs;  // per shard, of its own channels
  std::vector<Map> values;  // what was pooled
  std::vector<PooledPlane> pooled;
};

class Runner {
 public:
  Runner(const DeviceDesign& design, std::vector<ShardDesign> shards, uint64_t seed, const std::vector<StreamVectors>& given,
         DeviceVectors& vectors)
      : design_(design), shards_(std::move(shards)), random_(seed), given_(given), vectors_(vectors) {
    for (const ShardDesign& shard : shards_) {
      gradients_.emplace_back(shard.shape.weight_elements());
      biases_.emplace_back(static_cast<size_t>(shard.biases()));
    }
  }

  void sample() {
    Trace trace;
    forward(trace);
    backward(trace);
    ++sample_;
  }

  void finish() {
    for (size_t i = 0; i < shards_.size(); ++i) {
      const ShardDesign& shard = shards_[i];
      ShardGradients found;
      found.words.resize(parameter_elements(shard.engine, shard.shape));
      size_t at = 0;
      for (int64_t output = 0; output < shard.shape.outputs; ++output)
        for (int64_t input = 0; input < shard.shape.inputs / shard.shape.groups; ++input)
          for (int64_t tap = 0; tap < shard.engine.taps(); ++tap)
            found.words[parameter_place(shard.engine, shard.shape, output, input, tap)] = gradients_[i][at++];
      found.bias = biases_[i];
      vectors_.gradients.push_back(std::move(found));
    }
  }

 private:
  BeatOrder order(int64_t channels, int64_t height, int64_t width, int64_t block_rows = 1, int64_t first_block_rows = 1) const {
    return {channels, height, width, design_.lanes, first_block_rows, block_rows};
  }
  // Of the first `channels` of the layer.
  BeatOrder raw_order(const ShardDesign& shard, int64_t channels) const {
    return order(channels, shard.shape.out_height(), shard.shape.out_width(), shard.error_block_rows(), shard.error_first_block_rows());
  }
  // The next sample of an input: given, or random numbers of so many bits.
  Map taken(const std::string& name, const BeatOrder& order, int bits) {
    StreamVectors& input = stream(vectors_.inputs, name, design_.lanes);
    const auto known = std::ranges::find(given_, name, &StreamVectors::name);
    Map map;
    if (known == given_.end()) {
      map = random_map(random_, order.channels * order.height * order.width, bits);
    } else {
      const auto count = static_cast<size_t>(order.beats() * order.lanes);
      MILLRACE_CHECK(input.beats.size() + count <= known->beats.size(), "{} is given {} elements, too few", name, known->beats.size());
      map = map_of_beats(order, std::span(known->beats).subspan(input.beats.size(), count));
    }
    append(input.beats, order, map);
    return map;
  }
  void expect(const std::string& name, const BeatOrder& beats, const Map& map) {
    append(stream(vectors_.outputs, name, design_.lanes).beats, beats, map);
  }

  void forward(Trace& trace) {
    const ShardDesign& head = shards_.front();
    const int64_t arriving = head.arriving();
    Map current = taken("s_activation", order(arriving, head.shape.height, head.shape.width), 13);
    for (const ShardDesign& shard : shards_) {
      const ConvolutionShape& s = shard.shape;
      const int64_t plane = s.height * s.width;
      const Map own = channels_of(current, 0, s.inputs, plane);
      if (shard.passes_on()) {
        expect("m_activation", order(shard.passed(), s.height, s.width),
               channels_of(current, shard.first_passed(), shard.arriving(), plane));
      }
      std::vector<int32_t> accumulators(s.output_elements());
      const int64_t out_plane = s.out_height() * s.out_width();
      Map before;  // the sums of other outputs
      if (shard.appends_sums()) {
        before = taken("s_partial", order(shard.outputs_before, s.out_height(), s.out_width()), 13);
      } else if (!shard.first) {
        const Map partials = taken("s_partial", order(s.outputs, s.out_height(), s.out_width()), 13);
        accumulators = from_partials(partials, shard.formats.sum_shift(), counters_);
      }
      accumulate_forward(s, own, shard.weight, accumulators, counters_);
      Map sums = to_elements(accumulators, shard.formats.sum_shift(), counters_);
      if (shard.appends_sums()) sums = joined(before, sums, static_cast<size_t>(shard.outputs.begin * out_plane));
      trace.inputs.push_back(own);
      if (!shard.owner) {
        expect("m_partial", order(shard.outputs.end, s.out_height(), s.out_width()), sums);
        trace.values.emplace_back();
        trace.pooled.emplace_back();
        return;
      }
      const Map values = scaled_and_offset(sums, shard.layer_outputs,
                                           {.scale = shard.scale,
                                            .offset = shard.bias,
                                            .offset_shift = shard.scale_shift,
                                            .shift = shard.scale_shift,
                                            .relu = shard.relu,
                                            .slope = shard.slope},
                                           counters_);
      const Map normed = shard.response ? responded(*shard.response, shard.layer_outputs, values, counters_) : values;
      if (shard.pooled) {
        trace.pooled.push_back(pooled_forward(shard.window, shard.layer_outputs, normed, counters_));
      } else {
        trace.pooled.push_back({normed, std::vector<int16_t>(normed.size())});
      }
      current = trace.pooled.back().values;
      trace.values.push_back(values);
      if (shard.dropout) current = dropped_out(current, draws_of_test(shard, sample_ + 1), static_cast<size_t>(sample_), counters_);
    }
    const ShardDesign& tail = shards_.back();
    expect("m_activation", order(tail.layer_outputs, tail.window.out_height, tail.window.out_width), current);
  }

  void backward(const Trace& trace) {
    const ShardDesign& tail = shards_.back();
    // Of the output of the shard's layer, or of its raw sum where another device ends the group.
    Map error = taken(
        "s_error",
        tail.owner ? order(tail.layer_outputs, tail.window.out_height, tail.window.out_width) : raw_order(tail, tail.outputs.end), 11);
    for (size_t i = shards_.size(); i-- > 0;) {
      const ShardDesign& shard = shards_[i];
      const ConvolutionShape& s = shard.shape;
      Map raw = error;
      if (shard.owner) {
        if (shard.dropout) raw = dropped_out(raw, draws_of_test(shard, sample_ + 1), static_cast<size_t>(sample_), counters_);
        // Behind a maximum the ReLU let pass where the output is above zero; an average hides it.
        if (shard.relu && !shard.window.average && !shard.response) raw = error_through_relu(trace.pooled[i].values, raw, shard.slope);
        raw = pooled_back(shard.window, shard.layer_outputs, raw, trace.pooled[i], counters_);
        if (shard.response) {
          raw = response_back(*shard.response, shard.layer_outputs, trace.values[i], raw, counters_);
          if (shard.relu) raw = error_through_relu(trace.values[i], raw);
        }
        if (shard.masks_errors()) raw = error_through_relu(trace.values[i], raw, shard.slope);
        if (shard.normalised) raw = error_through_scale(raw, shard.layer_outputs, shard.scale, shard.scale_shift, counters_);
      }
      if (!shard.first) {
        const int64_t out_plane = s.out_height() * s.out_width();
        expect("m_raw_error", raw_order(shard, shard.sums_before()), channels_of(raw, 0, shard.sums_before(), out_plane));
      }
      if (shard.sums_all_biases()) accumulate_bias_gradient(s, raw, biases_[i], counters_);
      if (shard.outputs_divided) raw = channels_of(raw, shard.outputs.begin, shard.outputs.end, s.out_height() * s.out_width());
      if (!shard.sums_all_biases()) accumulate_bias_gradient(s, raw, biases_[i], counters_);
      accumulate_gradient(s, trace.inputs[i], raw, gradients_[i], counters_);
      if (!shard.error_back) return;
      std::vector<int32_t> accumulators(s.input_elements());
      accumulate_error_back(s, raw, shard.weight, accumulators, counters_);
      error = to_elements(accumulators, shard.formats.error_shift(), counters_);
      if (shard.passes_on()) {
        const Map others = taken("s_input_error", order(shard.passed(), s.height, s.width), 11);
        error = joined(error, others, static_cast<size_t>(shard.first_passed() * s.height * s.width));
      }
      if (i == 0) expect("m_input_error", order(shard.arriving(), s.height, s.width), error);
    }
  }

  const DeviceDesign& design_;
  int64_t sample_ = 0;
  std::vector<ShardDesign> shards_;
  std::mt19937_64 random_;
  const std::vector<StreamVectors>& given_;
  DeviceVectors& vectors_;
  ArithmeticCounters counters_;
  std::vector<std::vector<int32_t>> gradients_, biases_;
};

}  // namespace

DropoutDraws draws_of_test(const ShardDesign& shard, int64_t samples) {
  std::vector<int64_t> sample_ids;
  for (int64_t sample = 0; sample < samples; ++sample) sample_ids.push_back(11 + sample * 7919 % 1000);
  constexpr int64_t kApart = 1000;  // the same for cropped maps
  return dropout_draws(*shard.dropout, /*seed=*/1, shard.dropout_layer, /*epoch=*/3, sample_ids, kApart, /*training=*/true);
}

std::vector<ShardDesign> cropped_shards(const DeviceDesign& design, int64_t rows) {
  std::vector<ShardDesign> shards = design.shards;
  for (ShardDesign& shard : shards) {
    shard.shape.height = rows;
    shard.window.height = shard.shape.out_height();
    const int64_t whole = pooled_rows(design.shards[static_cast<size_t>(&shard - shards.data())], shard.window.height);
    shard.window.out_height = shard.pooled ? whole : shard.window.height;
    rows = shard.window.out_height;
  }
  return shards;
}

int64_t fewest_rows(const DeviceDesign& design) {
  for (int64_t rows = 1; rows < design.shards.front().shape.height; ++rows) {
    const std::vector<ShardDesign> shards = cropped_shards(design, rows);
    const bool all_work = std::ranges::all_of(shards, [](const ShardDesign& shard) {
      const ConvolutionShape& s = shard.shape;
      return s.height + 2 * s.pad_h >= s.kernel_h && shard.window.height + 2 * shard.window.pad_h >= shard.window.kernel_h &&
             shard.window.out_height >= 2;
    });
    if (all_work) return rows;
  }
  return design.shards.front().shape.height;
}

DeviceVectors device_vectors(const DeviceDesign& design, int64_t rows, int64_t samples, uint64_t seed,
                             const std::vector<StreamVectors>& given) {
  DeviceVectors vectors;
  vectors.rows = rows;
  vectors.samples = samples;
  Runner runner(design, cropped_shards(design, rows), seed, given, vectors);
  for (int64_t sample = 0; sample < samples; ++sample) runner.sample();
  runner.finish();
  return vectors;
}

}  // namespace millrace
